package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
)

// Runtime is the runtime as long as it lives.
type Runtime interface {
	drain.Stopper
	drain.Observer
	drain.Reacher
}

// Failover is the runtime, and from the moment in which that is dead for good, the processes themselves.
type Failover struct {
	Runtime Runtime
	// Dead tells whether a runtime that has not answered for the given time is not coming back.
	Dead func(ctx context.Context, silent time.Duration) bool

	mu     sync.Mutex
	reach  map[string]drain.Reach
	ends   map[string]time.Time
	silent time.Time // since when it does not answer; zero: it does
	asked  time.Time // when Dead was asked last
	dead   bool
}

// askEvery is how often Dead is asked at most, however many containers wait.
const askEvery = 300 * time.Millisecond

var errDead = errors.New("the runtime is gone")

// call asks the runtime, and finds out whether it is dead.
func (f *Failover) call(ctx context.Context, ask func() error) error {
	if f.gone() {
		return errDead
	}
	err := ask()
	if err == nil || errors.Is(ctx.Err(), context.Canceled) { // a caller that gave up says nothing of the runtime
		f.mu.Lock()
		if err == nil {
			f.silent = time.Time{}
		}
		f.mu.Unlock()
		return err
	}
	f.mu.Lock()
	if f.silent.IsZero() {
		f.silent = time.Now()
	}
	silent := time.Since(f.silent)
	fresh := time.Since(f.asked) < askEvery
	if !fresh {
		f.asked = time.Now()
	}
	f.mu.Unlock()
	if fresh {
		return err
	}
	probe, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, serr := f.Runtime.States(probe); serr == nil || !f.Dead(probe, silent) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.dead {
		log.G(ctx).WithError(err).Error("the runtime is gone: going on with processes, exit codes are lost")
	}
	f.dead = true
	return errDead
}

func (f *Failover) gone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// Prime takes over what an earlier process noted.
func (f *Failover) Prime(st *drain.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reach == nil {
		f.reach = map[string]drain.Reach{}
	}
	for _, p := range st.Pods {
		for _, c := range p.Containers {
			if c.Reach.PID > 0 && c.Outcome == "" {
				f.reach[c.ID] = c.Reach
			}
		}
	}
}

// Reach is part of drain.Reacher.
func (f *Failover) Reach(ctx context.Context) (all map[string]drain.Reach, err error) {
	err = f.call(ctx, func() error { all, err = f.Runtime.Reach(ctx); return err })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reach == nil {
		f.reach = map[string]drain.Reach{}
	}
	maps.Copy(f.reach, all)
	return all, err
}

func (f *Failover) of(id string) (drain.Reach, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.reach[id]
	switch {
	case !ok:
		return r, fmt.Errorf("%w, and the container's process is not known", errDead)
	case !r.Runc:
		return r, fmt.Errorf("%w, and the container is not runc's: its process is not its own", errDead)
	}
	return r, nil
}

// StopContainer is part of drain.Stopper.
func (f *Failover) StopContainer(ctx context.Context, id string, timeout time.Duration) error {
	err := f.call(ctx, func() error { return f.Runtime.StopContainer(ctx, id, timeout) })
	if !errors.Is(err, errDead) {
		return err
	}
	r, err := f.of(id)
	if err != nil {
		return err
	}
	if timeout == 0 {
		err = kill(id, r)
	} else {
		err = signal(id, r, stopSignal(r.Stop))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errDead, err)
	}
	Ended(ctx, r)
	return ctx.Err()
}

// StopPod is part of drain.Stopper.
func (f *Failover) StopPod(ctx context.Context, id string) error {
	return f.call(ctx, func() error { return f.Runtime.StopPod(ctx, id) })
}

// Sent is part of drain.Stopper.
func (f *Failover) Sent(ctx context.Context, id string) error {
	return f.call(ctx, func() error { return f.Runtime.Sent(ctx, id) })
}

// Snapshot is part of drain.Observer.
func (f *Failover) Snapshot(ctx context.Context) (s node.Snapshot, err error) {
	err = f.call(ctx, func() error { s, err = f.Runtime.Snapshot(ctx); return err })
	return s, err
}

// States is part of drain.Observer.
func (f *Failover) States(ctx context.Context) (all map[string]node.ContainerState, err error) {
	err = f.call(ctx, func() error { all, err = f.Runtime.States(ctx); return err })
	if !errors.Is(err, errDead) {
		return all, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ends == nil {
		f.ends = map[string]time.Time{}
	}
	all = map[string]node.ContainerState{}
	for id, r := range f.reach {
		if all[id] = node.Running; !alive(r) {
			all[id] = node.Exited
			if f.ends[id].IsZero() {
				f.ends[id] = time.Now()
			}
		}
	}
	return all, nil
}

// Exit is part of drain.Observer. Codes are lost: only the parent of a process learns them.
func (f *Failover) Exit(ctx context.Context, id string) (x drain.Exit, err error) {
	err = f.call(ctx, func() error { x, err = f.Runtime.Exit(ctx, id); return err })
	if !errors.Is(err, errDead) {
		return x, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.reach[id]
	if !ok {
		return drain.Exit{}, nil
	}
	at := f.ends[id]
	if at.IsZero() {
		at = time.Now()
	}
	return drain.Exit{Known: true, Ended: !alive(r), Lost: true, At: at}, nil
}
