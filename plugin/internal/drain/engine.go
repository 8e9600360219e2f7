package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/node"
)

// Stopper stops.
type Stopper interface {
	// StopContainer sends the stop signal unless it was sent, and waits until the container has ended, timeout has
	// passed (it is killed then) or ctx ends. A timeout of 0 is SIGKILL.
	StopContainer(ctx context.Context, id string, timeout time.Duration) error
	StopPod(ctx context.Context, id string) error
	// Sent returns once a stop signal that was asked for before is sent, as far as the runtime tells.
	Sent(ctx context.Context, id string) error
}

// Observer looks.
type Observer interface {
	Snapshot(ctx context.Context) (node.Snapshot, error)
	States(ctx context.Context) (map[string]node.ContainerState, error)
	Exit(ctx context.Context, id string) (Exit, error)
}

// Exit is how a container ended, as far as the runtime knows.
type Exit struct {
	Known  bool // the runtime knows the container
	Ended  bool
	At     time.Time
	Code   int
	Lost   bool // the code is not the container's: 255, Unknown
	Killed bool // out of memory
}

// Hooks runs preStop hooks other than sleep; host is the pod's address.
type Hooks interface {
	Run(ctx context.Context, container string, h Hook, host string, timeout time.Duration) error
}

// Journal makes a State durable.
type Journal interface {
	Save(st *State) error
}

// Reach is how a container is reached when the runtime is gone.
type Reach struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // of the process, in clock ticks since boot: a PID that is used again has another one
	Runc  bool   `json:"runc"`  // the PID is the container's own, not a VMM's
	Stop  string `json:"stop"`  // its stop signal
}

// Reacher tells how containers are reached without the runtime.
type Reacher interface {
	Reach(ctx context.Context) (map[string]Reach, error)
}

// Engine carries out one drain. It is used once.
type Engine struct {
	Stopper  Stopper
	Observer Observer
	Hooks    Hooks
	Journal  Journal
	Policy   Policy
	Fence    func(ctx context.Context) error   // tells the daemon to read the State; nil: there is none
	Reacher  Reacher                           // may be nil
	Ended    func(context.Context, Reach) bool // tells when a process has ended, or false at ctx's end; may be nil

	NodeHooks NodeHooks // of the operator; may be nil if the Policy has none
	Mounts    Mounts    // may be nil: they are not waited for

	mu     sync.Mutex // for all of state
	state  *State
	watch  *watch
	known  chan struct{}  // closed when the processes are known
	boxes  sync.WaitGroup // sandboxes that are being stopped
	saveMu sync.Mutex
	saved  uint64 // change up to which the State is durable
	change uint64
}

// leasePer is added to a lease for each container of a step: that many runc run at the same time.
const leasePer = 40 * time.Millisecond

const (
	reachFirst = time.Second      // is waited at most until the processes are known; a few milliseconds for each shim are usual
	reachLimit = 30 * time.Second // for the runtime to tell them
)

// State is a copy for whoever looks on; nil before Run.
func (e *Engine) State() *State {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == nil {
		return nil
	}
	return e.state.Clone()
}

// Run does what is not yet done of st, and returns when everything is, or ctx ends. What pods do is in the State and
// never an error.
func (e *Engine) Run(ctx context.Context, st *State) error {
	e.mu.Lock()
	e.state = st
	st.Phase = Draining
	e.mu.Unlock()
	e.known = make(chan struct{})
	reach, cancel := context.WithCancel(ctx)
	go func() {
		defer close(e.known)
		e.reach(reach)
	}()
	defer func() { cancel(); <-e.known }()
	e.watch = newWatch(e.Observer)
	stop := e.watch.start(ctx)
	defer func() { e.boxes.Wait(); stop() }()
	if err := e.hooks(ctx, PreDrain, nil); err != nil {
		return e.abort(ctx, err)
	}
	wait(ctx, e.known, reachFirst) // beside it the signals of a large tier would lie far apart; a shim that hangs makes it wait, not the drain
	e.leftBoxes(ctx)
	for i := st.Current; i < len(st.Steps) && ctx.Err() == nil; i++ {
		if err := e.tier(ctx, i); err != nil {
			return e.abort(ctx, err)
		}
	}
	e.boxes.Wait()
	if ctx.Err() == nil {
		e.sweep(ctx)
		e.edit(func() { st.Finished, st.Whole = time.Now().UTC(), true })
		_ = e.hooks(ctx, PostDrain, nil) // they cannot abort
		if e.Policy.hooked(PostDrain) {
			e.sweep(ctx) // they took their time, and the kubelet of an all-in-one program lives on
		}
	}
	if ctx.Err() != nil {
		e.edit(func() { st.Phase = Interrupted })
		return errors.Join(fmt.Errorf("drain: %w", context.Cause(ctx)), e.commit(context.WithoutCancel(ctx)))
	}
	e.edit(func() { st.Phase = Drained })
	err := e.commit(ctx)
	e.tell(ctx)
	return err
}

// tier runs a step between the hooks of its tier; those after a tier come after its last wave.
func (e *Engine) tier(ctx context.Context, i int) error {
	steps := e.state.Steps
	if err := e.hooks(ctx, PreTier, steps[i]); err != nil {
		return err
	}
	e.step(ctx, i)
	if i+1 < len(steps) && steps[i+1].Rank == steps[i].Rank {
		return nil
	}
	if e.Policy.hooked(PostTier) {
		e.boxes.Wait()
	}
	return e.hooks(ctx, PostTier, steps[i])
}

// reach notes how the containers are reached should the runtime die.
func (e *Engine) reach(ctx context.Context) {
	if e.Reacher == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	all, err := e.Reacher.Reach(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Warn("processes are not known: without the runtime their containers cannot be stopped")
		return
	}
	e.edit(func() {
		for _, p := range e.state.Pods {
			for _, c := range p.Containers {
				if r, ok := all[c.ID]; ok && c.Outcome == "" {
					c.Reach = r
				}
			}
		}
	})
}

// edit changes the State.
func (e *Engine) edit(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.change++
}

// commit returns when every edit made before is durable. Those that wait together share one write.
func (e *Engine) commit(ctx context.Context) error {
	e.mu.Lock()
	want := e.change
	e.mu.Unlock()
	e.saveMu.Lock()
	defer e.saveMu.Unlock()
	if e.saved >= want {
		return nil
	}
	e.mu.Lock()
	want = e.change
	copied := e.state.Clone()
	e.mu.Unlock()
	if err := e.Journal.Save(copied); err != nil {
		log.G(ctx).WithError(err).Error("the drain's state was not written; going on")
		return err
	}
	e.saved = want
	return nil
}

// persist is commit where nothing depends on it but the report.
func (e *Engine) persist(ctx context.Context, f func()) {
	e.edit(f)
	_ = e.commit(ctx) // logged there, and the drain goes on without a disk
}

func (s *State) note(text string) {
	if !slices.Contains(s.Notes, text) {
		s.Notes = append(s.Notes, text)
	}
}

// rounds is how often a step looks for containers that were made while it ran.
const rounds = 5

// step stops the pods of a step, and what turned up behind its back.
func (e *Engine) step(ctx context.Context, i int) {
	st := e.state
	e.persist(ctx, func() {
		st.Current = i
		if st.Steps[i].Began.IsZero() {
			st.Steps[i].Began = time.Now().UTC()
		}
	})
	e.tell(ctx)
	log.G(ctx).WithField("tier", st.Steps[i].Name).Info("draining tier")
	if e.state.hosted(i) {
		e.boxes.Wait()
	}
	uids, devices := e.mounted(ctx, i)
	for round := range rounds {
		if round > 0 {
			e.boxes.Wait() // the record is theirs until then
		}
		e.mu.Lock()
		pods := st.step(i)
		e.mu.Unlock()
		e.pods(ctx, i, pods)
		if ctx.Err() != nil || !e.stragglers(ctx, i) {
			break
		}
	}
	e.settle(ctx, i, uids, devices)
	if ctx.Err() == nil {
		e.persist(ctx, func() { st.Steps[i].Ended = time.Now().UTC() })
	}
}

// pods stops pods in parallel.
func (e *Engine) pods(ctx context.Context, step int, pods []*PodRecord) {
	n := 0
	for _, p := range pods {
		n += len(p.Containers)
	}
	extra, running := time.Duration(n)*leasePer, e.glance(ctx)
	limit := e.limit(step, pods, time.Now())
	now := time.Now().UTC()
	e.edit(func() {
		for _, p := range pods {
			if p.Began.IsZero() {
				p.Began, p.Given = now, max(min(p.Asked, limit), Floor)
				p.Deadline = now.Add(p.Given)
			}
		}
	})
	var wg sync.WaitGroup
	for _, p := range pods {
		wg.Go(func() {
			e.pod(ctx, p, running, extra)
			e.box(ctx, p)
		})
	}
	wg.Wait()
}
