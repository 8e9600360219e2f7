package drain

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/node"
)

const (
	lease     = time.Second            // how long a stop call is held: a long one freezes CRI when a plugin registers (containerd#14083)
	sent      = 300 * time.Millisecond // after which a stop call that has not failed is with the container's shim
	again     = 200 * time.Millisecond // between tries while the runtime does not answer
	podStop   = 15 * time.Second       // for one sandbox: a network plugin that is gone blocks
	exitLimit = 5 * time.Second        // for the runtime to tell how a container ended, or that a signal is sent
	noteLimit = 30 * time.Second       // for the runtime to note that a process has: one with much to do took over 10 s
)

// glance asks for all containers that run, at once: asked for each by itself before its signal, the signals of a large tier
// would lie apart. It is nil if the runtime does not answer.
func (e *Engine) glance(ctx context.Context) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, exitLimit)
	defer cancel()
	states, err := e.Observer.States(ctx)
	if err != nil {
		return nil
	}
	running := make(map[string]bool, len(states))
	for id, s := range states {
		running[id] = s != node.Exited
	}
	return running
}

// pod stops the mains of a pod together, then the sidecars in reverse.
func (e *Engine) pod(ctx context.Context, p *PodRecord, running map[string]bool, extra time.Duration) {
	var wg sync.WaitGroup
	for _, c := range p.Containers {
		if c.Sidecar == 0 {
			wg.Go(func() { e.container(ctx, p, c, running[c.ID], p.Deadline, extra) })
		}
	}
	wg.Wait()
	sidecars := slices.DeleteFunc(slices.Clone(p.Containers), func(c *ContainerRecord) bool { return c.Sidecar == 0 })
	slices.SortFunc(sidecars, func(a, b *ContainerRecord) int { return b.Sidecar - a.Sidecar })
	for _, c := range sidecars {
		e.container(ctx, p, c, false, later(p.Deadline, time.Now().UTC().Add(Floor)), extra)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// container brings one container to its end: hook, signal, grace, SIGKILL. How it ended is asked beside what comes next.
func (e *Engine) container(ctx context.Context, p *PodRecord, c *ContainerRecord, runs bool, deadline time.Time, extra time.Duration) {
	if c.Outcome != "" {
		return
	}
	gone := e.watch.gone(c.ID)
	if c.Signal.IsZero() && !runs {
		if x, err := e.exit(ctx, c.ID); err == nil && (x.Ended || !x.Known) {
			e.record(ctx, c, x)
			return
		}
	}
	defer e.follow(ctx, c, gone)()
	e.hook(ctx, p, c, deadline, gone)
	e.signal(ctx, c, max(time.Until(deadline), Floor), extra, gone)
	if !wait(ctx, gone, time.Until(c.Deadline)) && ctx.Err() == nil {
		e.kill(ctx, c, gone)
	}
}

// verify asks the runtime how a container ended whose process has: it takes note some time after that.
func (e *Engine) verify(ctx context.Context, c *ContainerRecord) {
	pause, end := pollFirst, time.Now().Add(noteLimit)
	if last := later(e.state.Deadline, time.Now().Add(KillSlack)); end.After(last) {
		end = last
	}
	for ; c.Outcome == "" && ctx.Err() == nil; pause = min(2*pause, again) {
		x, err := e.exit(ctx, c.ID)
		switch {
		case ctx.Err() != nil:
		case err == nil && (x.Ended || !x.Known):
			e.record(ctx, c, x)
		case time.Now().After(end):
			e.record(ctx, c, Exit{Known: true, Ended: true, Lost: true, At: time.Now()})
		default:
			wait(ctx, nil, pause) // it does not answer, or does not know yet
		}
	}
}

// wait tells whether ch was closed within d.
func wait(ctx context.Context, ch <-chan struct{}, d time.Duration) bool {
	select {
	case <-ch:
		return true
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ch:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

var errCutOff = errors.New("cut off at the end of the pod's grace")

// hook runs the preStop hook, once, within the pod's grace.
func (e *Engine) hook(ctx context.Context, p *PodRecord, c *ContainerRecord, deadline time.Time, gone <-chan struct{}) {
	left := time.Until(deadline)
	if c.Hook == nil || !c.HookBegan.IsZero() || left <= 0 {
		return
	}
	e.persist(ctx, func() { c.HookBegan = time.Now().UTC() })
	hctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		if c.Hook.Sleep > 0 {
			wait(hctx, nil, c.Hook.Sleep)
			done <- hctx.Err()
			return
		}
		done <- e.Hooks.Run(hctx, c.ID, *c.Hook, p.IP, left)
	}()
	var err error
	select {
	case err = <-done:
	case <-gone:
	case <-hctx.Done():
	}
	if hctx.Err() != nil || err != nil && !time.Now().Before(deadline) { // the runtime may be the first to say so
		err = errCutOff
	}
	e.persist(ctx, func() {
		c.HookEnded = time.Now().UTC()
		if err != nil && ctx.Err() == nil {
			c.HookError = err.Error()
		}
	})
}

// kill sends SIGKILL and waits a bounded time.
func (e *Engine) kill(ctx context.Context, c *ContainerRecord, gone <-chan struct{}) {
	log.G(ctx).WithField("container", c.Name).WithField("id", c.ID).Warn("killing a container whose grace is over")
	e.persist(ctx, func() { c.Kill = time.Now().UTC() })
	slack := min(KillSlack, max(Floor, time.Until(e.state.Deadline)))
	call, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	done := make(chan error, 1)
	var err error
	for {
		go func() { done <- e.Stopper.StopContainer(call, c.ID, 0) }()
		select {
		case <-gone:
			return
		case err = <-done:
			e.watch.kick()
		case <-call.Done():
		}
		if wait(call, gone, again) {
			return
		}
		if call.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	log.G(ctx).WithField("container", c.Name).Error("a container survives SIGKILL, passing it by")
	e.persist(ctx, func() {
		c.Outcome = Unkillable
		if err != nil {
			c.Note = err.Error()
		}
	})
}

// exit asks how a container ended, again for a while if the runtime does not answer.
func (e *Engine) exit(ctx context.Context, id string) (x Exit, err error) {
	ctx, cancel := context.WithTimeout(ctx, exitLimit)
	defer cancel()
	for {
		x, err = e.Observer.Exit(ctx, id)
		if err == nil {
			return x, nil
		}
		if wait(ctx, nil, again); ctx.Err() != nil {
			return x, err
		}
	}
}

// record says how a container ended.
func (e *Engine) record(ctx context.Context, c *ContainerRecord, x Exit) {
	e.persist(ctx, func() {
		at := x.At
		if at.IsZero() {
			at = time.Now()
		}
		c.ended(at)
		if x.Known && x.Ended && !x.Lost {
			c.Code = &x.Code
		}
		c.Outcome = outcome(c, x)
	})
}

func outcome(c *ContainerRecord, x Exit) Outcome {
	switch {
	case c.Signal.IsZero() && c.HookBegan.IsZero():
		return AlreadyGone
	case !x.Known:
		return Vanished
	case x.Killed:
		return OOM
	case !c.Kill.IsZero() && (x.Lost || x.Code == 137 || x.At.IsZero()):
		return Killed
	case x.Lost:
		return CodeLost
	default:
		return Exited
	}
}
