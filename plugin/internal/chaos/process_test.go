package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/daemon"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

// rules are those of the daemon and of apply.
var rules = node.Rules{Paths: []string{"/"}, Undecided: 5 * time.Second, Stuck: time.Hour}

var errKilled = errors.New("killed")

// daemonProcess is one life of the daemon.
type daemonProcess struct {
	state  *node.State
	guards daemon.Guards
	cancel context.CancelFunc
	done   chan struct{}
}

// startDaemon starts the daemon, and again whenever it ends.
func (w *world) startDaemon(epoch int) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &daemonProcess{state: node.NewState(), cancel: cancel, done: make(chan struct{})}
	w.mu.Lock()
	if w.over || w.epoch != epoch {
		w.mu.Unlock()
		cancel()
		return
	}
	w.daemon = p
	w.mu.Unlock()
	go func() {
		defer cancel()
		err := w.runDaemon(ctx, p)
		w.mu.Lock()
		if w.daemon == p {
			w.daemon = nil
		}
		over := w.over
		w.mu.Unlock()
		close(p.done)
		if err != nil && !over {
			w.violate("the daemon ended: %v", err)
		}
		pass(w.about(time.Second))
		w.startDaemon(epoch)
	}()
}

func (w *world) runDaemon(ctx context.Context, p *daemonProcess) error {
	store, err := stage.Open(w.path("var/stage"))
	if err != nil {
		return err
	}
	defer store.Close()
	drained, err := drain.OpenStore(w.path("var/stage"))
	if err != nil {
		return nil // a full or read-only disk: it is tried again
	}
	defer drained.Close()
	fence := &daemon.Fence{}
	d := &daemon.Daemon{
		Version: "chaos", Unit: "containerd.service", Store: store, State: p.state, CRI: &runtimeClient{w: w},
		NRI:    func() nri.Status { return nri.Status{Connected: w.up(), Since: w.began} },
		Fences: fence, Drains: daemon.NewDrains(drained, drain.DefaultPolicy()), Rules: rules,
		Policy: gate.Policy{Quiet: quiet, Undecided: 10 * time.Second}, Start: w.startApply, Notes: func() []string { return nil },
	}
	d.Inherit()
	w.mu.Lock()
	p.guards = daemon.Guards{Apply: fence, Drain: d.Drains}
	w.mu.Unlock()
	return d.Run(ctx)
}

func (w *world) up() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answers
}

// killDaemon waits for its end.
func (w *world) killDaemon() {
	w.mu.Lock()
	p := w.daemon
	w.mu.Unlock()
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// applyProcess is one run of apply's unit.
type applyProcess struct {
	w      *world
	dead   atomic.Bool
	steps  int
	dieAt  int // at this step; 0: never
	stop   context.CancelFunc
	done   chan struct{}
	err    error
	killed bool
}

// alive ends a process that was killed: what it defers comes here too, and ends.
func (p *applyProcess) alive() {
	if p.dead.Load() {
		panic(errKilled)
	}
}

func (p *applyProcess) step(name string) {
	p.steps++
	if p.steps == p.dieAt {
		p.w.mu.Lock()
		p.w.faults["apply killed at a step"]++
		p.w.mu.Unlock()
		p.dead.Store(true)
	}
	p.alive()
	if name == "looked" {
		p.w.mu.Lock()
		p.w.looked = p.w.listed
		p.w.mu.Unlock()
	}
}

// startApply is what the daemon does when the gate opens.
func (w *world) startApply(ctx context.Context, t apply.Ticket) error {
	if err := w.bus(ctx); err != nil {
		return err
	}
	p := w.launch(func(ctx context.Context, a *apply.Apply) error {
		err := a.Run(ctx, t)
		if errors.Is(err, apply.ErrDeferred) {
			return nil
		}
		return err
	})
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// launch starts the unit, or gives the run that is on.
func (w *world) launch(run func(context.Context, *apply.Apply) error) *applyProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.apply != nil {
		return w.apply
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &applyProcess{w: w, stop: stop, done: make(chan struct{})}
	if w.rng.IntN(6) == 0 && !w.over {
		p.dieAt = 1 + w.rng.IntN(120)
	}
	w.apply = p
	go func() {
		p.err = w.runApply(ctx, p, run)
		stop()
		if p.killed {
			pass(40 * time.Millisecond) // the guard looks each 50 ms
			w.thaw(p)
		} else if w.thaw(p) {
			w.violate("apply has ended, and containers are still frozen")
		}
		w.mu.Lock()
		w.apply = nil
		w.mu.Unlock()
		close(p.done)
	}()
	return p
}

func (w *world) runApply(ctx context.Context, p *applyProcess, run func(context.Context, *apply.Apply) error) (err error) {
	store, err := stage.Open(w.path("var/stage"))
	if err != nil {
		return err
	}
	defer store.Close()
	defer func() {
		if r := recover(); r != nil {
			if r != any(errKilled) {
				panic(r)
			}
			p.killed, err = true, errKilled
			w.mu.Lock()
			if w.down != nil {
				w.down.died = true
			}
			w.mu.Unlock()
		}
	}()
	store.Steps(p.step)
	c := &runtimeClient{w: w, p: p}
	return run(ctx, &apply.Apply{
		Store: store, Unit: c, CRI: c, Step: p.step, Config: w.path(configFile), Shims: w.path("opt/shims"), Rules: rules,
		Verify: verify, Look: 5 * time.Second, Freezer: &freezer{c}, Fence: c.fence,
	})
}

// killApply may come before or after apply's next step.
func (w *world) killApply() {
	w.mu.Lock()
	p := w.apply
	w.mu.Unlock()
	if p != nil {
		p.dead.Store(true)
		p.stop()
		<-p.done
	}
}

// runtimeClient is CRI and systemd for a process; of the daemon's p is nil.
type runtimeClient struct {
	w *world
	p *applyProcess
}

func (c *runtimeClient) alive() {
	if c.p != nil {
		c.p.alive()
	}
}

// call takes a moment, in which everything may happen.
func (c *runtimeClient) call(ctx context.Context) error {
	c.alive()
	err := wait(ctx, c.w.about(8*time.Millisecond))
	c.alive()
	if err == nil && !c.w.up() {
		err = errors.New("no answer")
	}
	return err
}

func (c *runtimeClient) fence(ctx context.Context, up bool) error {
	c.alive()
	err := wait(ctx, c.w.about(2*time.Millisecond))
	c.alive()
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	d := c.w.daemon
	if d == nil || d.guards.Apply == nil {
		return errors.New("no daemon")
	}
	if err == nil {
		d.guards.Apply.Set(up)
	}
	return err
}

func (c *runtimeClient) Reconnect() { c.alive() }

func (c *runtimeClient) Answers(ctx context.Context) bool { return c.call(ctx) == nil }

func (c *runtimeClient) Runtime(ctx context.Context) (cri.Runtime, error) {
	if err := c.call(ctx); err != nil {
		return cri.Runtime{}, err
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	rt := cri.Runtime{Name: "containerd", Ready: true}
	for _, n := range c.w.loaded {
		if !strings.HasPrefix(n, "hidden") {
			rt.Handlers = append(rt.Handlers, n)
		}
	}
	return rt, nil
}

func (c *runtimeClient) List(ctx context.Context) ([]*node.Pod, error) {
	began := time.Now()
	if err := c.call(ctx); err != nil {
		return nil, err
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.p != nil {
		c.w.listed = began
	}
	var out []*node.Pod
	for _, p := range c.w.pods {
		out = append(out, p.seen())
	}
	return out, nil
}

func (c *runtimeClient) Processes(ctx context.Context) ([]cri.Process, error) {
	return nil, c.call(ctx)
}

func (c *runtimeClient) Ended(ctx context.Context, _ map[string]bool) ([]cri.Ended, error) {
	return nil, c.call(ctx)
}

func (c *runtimeClient) Process(ctx context.Context) (systemd.Process, error) {
	c.alive()
	if err := c.w.bus(ctx); err != nil {
		return systemd.Process{}, err
	}
	c.alive()
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return systemd.Process{Invocation: fmt.Sprint(c.w.last), PID: c.w.process}, nil
}

// Restart is systemd's job: it goes on if apply dies.
func (c *runtimeClient) Restart(ctx context.Context) (before, after systemd.Process, err error) {
	asked := time.Now()
	if before, err = c.Process(ctx); err != nil {
		return before, after, err
	}
	c.alive()
	c.w.judgeRestart(asked)
	done := make(chan error, 1)
	go func() {
		pass(c.w.about(50 * time.Millisecond))
		c.w.mu.Lock()
		if c.w.down != nil {
			c.w.down.started = true
		}
		c.w.mu.Unlock()
		done <- c.w.startRuntime()
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.alive()
	if err == nil {
		after, err = c.Process(ctx)
	}
	return before, after, err
}

// window is a freezer's.
type window struct {
	owner *applyProcess
	pods  []*pod
}

type freezer struct{ *runtimeClient }

// Freeze freezes the pods of Jobs.
func (f *freezer) Freeze(ctx context.Context) (freeze.Result, error) {
	w := f.w
	w.thaw(nil)
	if err := f.call(ctx); err != nil {
		w.excuse()
		return freeze.Result{}, fmt.Errorf("%w: %w", freeze.ErrPutOff, err)
	}
	w.mu.Lock()
	if w.rng.IntN(20) == 0 {
		w.excused = true
		w.mu.Unlock()
		return freeze.Result{}, freeze.ErrPutOff
	}
	win := &window{owner: f.p}
	w.window = win
	for _, p := range w.pods {
		if p.job && p.running() {
			p.frozen = true
			win.pods = append(win.pods, p)
		}
	}
	w.mu.Unlock()
	go func() {
		pass(freezeLimit)
		w.mu.Lock()
		over := w.window == win
		w.mu.Unlock()
		if over {
			for _, p := range win.pods {
				w.setFrozen(p, false)
			}
		}
	}()
	if err := errors.Join(wait(ctx, w.about(200*time.Millisecond)), f.call(ctx)); err != nil {
		w.thaw(f.p)
		w.excuse()
		return freeze.Result{}, fmt.Errorf("%w: %w", freeze.ErrPutOff, err)
	}
	return freeze.Result{Protected: len(win.pods)}, nil
}

func (w *world) excuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.excused = true
}

// Thaw ends the window.
func (f *freezer) Thaw(context.Context) (freeze.Result, error) {
	f.alive()
	f.w.thaw(nil)
	return freeze.Result{}, nil
}

// thaw ends the window of a process, nil for whosever it is, and tells whether there was one.
func (w *world) thaw(of *applyProcess) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	win := w.window
	if win == nil || of != nil && win.owner != of {
		return false
	}
	w.window = nil
	for _, p := range win.pods {
		p.frozen = false
	}
	return true
}

func (w *world) setFrozen(p *pod, frozen bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.frozen = frozen
}

// judgeRestart looks at the node when systemd begins the restart that apply asked for, and takes the runtime away.
func (w *world) judgeRestart(asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		p.promised = w.window != nil && slices.Contains(w.window.pods, p)
		if w.looked.IsZero() || !w.answers || p.excused {
			continue
		}
		if p.installer && p.ready && p.made && p.madeAt.Before(w.looked) { // before, it may only be one, and is waited for a bounded time
			w.violateLocked("restart while installer %s is in flight", p.id)
		}
		if p.made && !p.started && !p.finished {
			w.violateLocked("restart while a container of %s is being created", p.id)
		}
	}
	if w.answers && asked.Sub(w.since) > time.Second && w.window == nil && !w.excused { // one that was silent is not asked again
		w.violateLocked("restart with nothing frozen")
	}
	w.looked, w.excused = time.Time{}, false
	if w.down == nil {
		w.down = &downtime{began: time.Now()}
	}
	w.down.started = false
	w.process, w.answers = 0, false
}
