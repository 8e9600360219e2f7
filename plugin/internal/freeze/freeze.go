package freeze

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// Runtime is what the runtime is asked.
type Runtime interface {
	List(ctx context.Context) ([]*node.Pod, error)
	Tasks(ctx context.Context) ([]cri.Task, error)
}

// StartGuard starts a process outside the caller's cgroup that runs Guard for it, and returns when it watches.
type StartGuard func(ctx context.Context, window string, owner Process, limit time.Duration) (stop func(context.Context) error, err error)

// Freezer freezes for one restart after the other. It is not for concurrent use, and there is one on a node at a time:
// apply's, which holds stage.Store.Lock.
type Freezer struct {
	Dir     string // the store: the list is kept there
	Runtime Runtime
	Rules   Rules
	Limit   time.Duration // how long anything may be frozen
	Guard   StartGuard
	Inhibit func(context.Context) (release func() error, err error) // keeps the node from being shut down; nil: nothing does
	Step    func(name string)                                       // called between the steps, by tests; nil: nothing is

	window *window
}

// ErrPutOff says that nothing is frozen and that the restart should be tried later.
var ErrPutOff = errors.New("freezing was put off")

// Result tells what a window did.
type Result struct {
	Protected   int           // containers that are, or were, frozen
	Unprotected []string      // containers whose exit code matters and is at risk, with the reason
	From, To    time.Time     // when all were frozen; after Thaw: until when
	Longest     time.Duration // after Thaw: how long the first of them was frozen
	Early       bool          // after Thaw: something else had thawed one of them before, the limit for example
}

// Bounds of a window.
const (
	rounds    = 5                     // how often more containers may have to be frozen
	calmFor   = 10 * time.Second      // how long CRI may take to notice the end of a container, before anything is frozen: over 2 s were seen on a busy node
	calmEvery = 20 * time.Millisecond // between lists
	freezeFor = time.Second           // how long a cgroup may be FREEZING; at most a quarter of the limit
)

// Freeze freezes the containers whose exit code matters. With an error, which is an ErrPutOff, nothing is frozen.
func (f *Freezer) Freeze(ctx context.Context) (Result, error) {
	r, err := f.freeze(ctx)
	if err == nil {
		return r, nil
	}
	_, terr := f.Thaw(ctx)
	if terr != nil {
		err = errors.Join(err, terr)
	}
	return Result{Unprotected: r.Unprotected}, fmt.Errorf("%w: %w", ErrPutOff, err)
}

func (f *Freezer) freeze(ctx context.Context) (Result, error) {
	if f.window != nil {
		return Result{}, errors.New("a window is open already")
	}
	if err := ThawAll(ctx, f.Dir, ""); err != nil { // an earlier window's: its owner is dead, or was this process
		return Result{}, err
	}
	first, lost, err := f.calm(ctx)
	if blind(err) {
		return Result{Unprotected: []string{"all containers: " + err.Error()}}, nil
	}
	if err != nil || len(first.live)+len(first.ending) == 0 {
		return Result{Unprotected: first.unprotected}, err
	}
	w, err := f.open(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Error("no guard: nothing is frozen")
		return Result{Unprotected: []string{"all containers: " + err.Error()}}, nil
	}
	f.window = w
	f.step("guarded")
	ctx, cancel := context.WithTimeoutCause(ctx, f.Limit/2, errors.New("the containers that run did not stay the same for long enough"))
	defer cancel()
	return f.settle(ctx, w, lost)
}

func (f *Freezer) step(name string) {
	if f.Step != nil {
		f.Step(name)
	}
}

// calm waits, while nothing is frozen, until CRI knows the end of every container that has ended. Those that it never
// notices (containerd#12600) have lost their exit code already and are not waited for again.
func (f *Freezer) calm(ctx context.Context) (s survey, lost map[string]string, err error) {
	began := time.Now()
	for {
		if s, err = f.look(ctx); err != nil || len(s.ending) == 0 {
			return s, nil, err
		}
		if time.Since(began) > calmFor {
			break
		}
		if err := pause(ctx); err != nil {
			return s, nil, err
		}
	}
	lost = map[string]string{}
	for _, c := range s.ending {
		lost[c.id] = c.name + ": it runs to CRI, and has no process"
	}
	s.ending = nil
	s.unprotected = append(s.unprotected, slices.Sorted(maps.Values(lost))...)
	return s, lost, nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(calmEvery):
		return nil
	}
}

// open starts the guard.
func (f *Freezer) open(ctx context.Context) (*window, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	now, err := uptime()
	if err != nil {
		return nil, err
	}
	t, err := stage.OpenTree(f.Dir)
	if err != nil {
		return nil, err
	}
	w := &window{tree: t, held: map[string]*held{}, unfit: map[string]string{}}
	w.list = list{Window: strings.ToLower(rand.Text()[:10]), Boot: boot, Owner: Self(), Until: now + f.Limit}
	w.limit = time.Now().Add(f.Limit)
	if w.stop, err = f.Guard(ctx, w.list.Window, w.list.Owner, f.Limit); err != nil {
		return nil, errors.Join(fmt.Errorf("start guard: %w", err), t.Close())
	}
	if f.Inhibit != nil {
		if w.release, err = f.Inhibit(ctx); err != nil {
			log.G(ctx).WithError(err).Debug("no inhibitor: logind does not answer")
		}
	}
	return w, nil
}

// settle freezes until a whole list shows nothing new.
func (f *Freezer) settle(ctx context.Context, w *window, lost map[string]string) (Result, error) {
	for round := 0; round <= rounds; {
		s, err := f.look(ctx)
		if err != nil {
			return Result{Unprotected: s.unprotected}, err
		}
		s.ending = slices.DeleteFunc(s.ending, func(c candidate) bool { return lost[c.id] != "" })
		more, ended, err := w.compare(s)
		if err != nil {
			return Result{}, err
		}
		s.ending = append(s.ending, ended...)
		if len(more) == 0 && len(s.ending) == 0 {
			return w.result(s, lost), nil
		}
		if len(more) > 0 {
			round++
			if err := f.hold(ctx, w, more); err != nil {
				return Result{}, err
			}
			continue
		}
		if err := pause(ctx); err != nil {
			return Result{}, fmt.Errorf("%s has ended, which CRI does not know yet: %w", s.ending[0].name, err)
		}
	}
	return Result{}, fmt.Errorf("containers are started all the time: %d rounds", rounds)
}

// hold puts more containers on the list and freezes them.
func (f *Freezer) hold(ctx context.Context, w *window, more []*held) error {
	for _, h := range more {
		w.held[h.Container] = h
		w.list.Cgroups = append(w.list.Cgroups, h.member)
	}
	if err := w.list.write(w.tree); err != nil {
		return err
	}
	f.step("listed")
	for i, h := range more {
		if time.Now().After(w.limit) || ctx.Err() != nil {
			return errors.Join(errors.New("the limit is over"), context.Cause(ctx))
		}
		if w.began.IsZero() {
			w.began = time.Now()
		}
		if err := h.begin(); err != nil && !gone(err) {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if i == 0 {
			f.step("first frozen")
		}
	}
	more, err := w.dropEnded(more)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, min(freezeFor, f.Limit/4))
	defer cancel()
	for _, h := range more {
		if err := h.await(ctx); err != nil && !gone(err) {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	_, err = w.dropEnded(more)
	f.step("frozen")
	return err
}

// Thaw thaws what Freeze froze and ends the window; without one it does nothing.
func (f *Freezer) Thaw(ctx context.Context) (Result, error) {
	w := f.window
	if w == nil {
		return Result{}, nil
	}
	f.window = nil
	f.step("thawing")
	r, err := w.close(context.WithoutCancel(ctx))
	f.step("thawed")
	return r, err
}
