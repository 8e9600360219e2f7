package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/stage"
)

// CRI is what the daemon asks the runtime.
type CRI interface {
	List(ctx context.Context) ([]*node.Pod, error)
	Runtime(ctx context.Context) (cri.Runtime, error)
	Reconnect()
}

// Daemon holds what the loop needs.
type Daemon struct {
	Version string
	Unit    string // the runtime's
	Store   *stage.Store
	State   *node.State
	CRI     CRI
	NRI     func() nri.Status
	Hurry   func() // has a lost registration tried again at once; nil: nobody can
	Fences  *Fence
	Drains  *Drains
	Rules   node.Rules
	Policy  gate.Policy
	Start   func(ctx context.Context, t apply.Ticket) error    // runs apply's unit to its end
	Empty   func(ctx context.Context, handlers []string) error // drains their pods; nil: it cannot
	Resume  func(ctx context.Context) error                    // ends the gate's own drain
	Stops   func(ctx context.Context) ([]string, error)        // calls in flight that stop something; nil: they are not observable
	Notes   func() []string                                    // what works less than it could, and why
	Found   func() *profile.Found                              // how the runtime was found; nil: nobody looked
	Unused  func() bool                                        // tells whether versions of shims are of no use any more; nil: nobody looks

	mu       sync.Mutex
	status   control.Status
	decision gate.Decision
	fault    fault
	unseen   string    // why stops are not observable; empty: they are
	looked   time.Time // at stops; only Run uses it
	busy     bool      // with the gate's own drain; only Run uses it
	heir     bool      // of an apply that ran before: its fence is up; only Run uses it
	swept    time.Time // when shims were looked at; only Run uses it
	noted    noted     // only Run uses it
	rest     rest
}

const (
	listTimeout = 5 * time.Second
	idleList    = 30 * time.Second       // between lists while nothing is pending; see restList too
	tick        = time.Second            // between looks at the inbox, and between lists while something is pending
	nriGrace    = 30 * time.Second       // how long a lost NRI connection is waited for before lists alone decide
	calm        = 5 * time.Millisecond   // lets a burst of events pass; the quiet period begins after it
	idleEach    = 200 * time.Millisecond // between looks at events while nothing waits: whoever starts many pods is not to pay for each
)

// Run decides until ctx ends.
func (d *Daemon) Run(ctx context.Context) error {
	g := gate.New(d.Policy, time.Now())
	applied := make(chan error, 1)
	running := false
	emptied := make(chan error, 1)
	var dec gate.Decision
	var looked time.Time
	for {
		if !d.rests(time.Now()) {
			looked = time.Now()
			in, err := d.look(ctx, running)
			if err != nil {
				return err
			}
			d.disown(in)
			dec = g.Decide(in)
			d.show(ctx, in, dec)
			d.note(ctx, dec, time.Now())
			if t := d.ticket(ctx, in, dec); t != nil {
				running = true
				go func() { applied <- d.Start(ctx, *t) }()
			}
			if work := d.emptying(in, dec); work != nil {
				d.busy = true
				go func() { emptied <- work(ctx) }()
			}
			d.settle(in, dec, running || d.busy)
		}
		select {
		case <-ctx.Done():
			if d.busy {
				d.drained(ctx, <-emptied) // it is cut off, and goes on with the next daemon
			}
			return d.last(ctx, running, applied)
		case err := <-applied:
			running = false
			d.Fences.Set(false) // an apply that died has not
			d.applied(ctx, err)
		case err := <-emptied:
			d.busy = false
			d.drained(ctx, err)
		case <-d.State.Wake():
			d.rest.found = false
			d.pause(ctx, burst(dec, looked))
		case <-time.After(until(dec)):
		}
	}
}

// ticket is what apply is to be started with now, or nil.
func (d *Daemon) ticket(ctx context.Context, in gate.Input, dec gate.Decision) *apply.Ticket {
	if dec.Open && !in.Running {
		log.G(ctx).WithField("entries", dec.Ready).Info("the gate opens")
		return &apply.Ticket{Ready: dec.Ready, Undecided: dec.Tired, Forced: dec.Forced, Due: dec.Due, Issued: time.Now().UTC()}
	}
	if d.sweeps(in, dec) {
		return &apply.Ticket{Issued: time.Now().UTC()} // for no entry: it only puts in order
	}
	return nil
}

// last waits for the apply that was begun: it is a unit of its own and goes on without the daemon, but its ticket should
// have been taken.
func (d *Daemon) last(ctx context.Context, running bool, applied <-chan error) error {
	if !running {
		return nil
	}
	if err := <-applied; err != nil {
		log.G(ctx).WithError(err).Info("apply goes on by itself")
	}
	return nil
}

// until is when to look again at the latest.
func until(dec gate.Decision) time.Duration {
	if dec.Check > 0 {
		return min(dec.Check, tick)
	}
	return tick
}

// burst is how long more events are waited for before they are looked at.
func burst(dec gate.Decision, looked time.Time) time.Duration {
	if dec.Phase == gate.Idle && len(dec.Blockers) == 0 {
		return max(calm, idleEach-time.Since(looked))
	}
	return calm
}

// pause lets a burst of events pass.
func (d *Daemon) pause(ctx context.Context, t time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(t):
	}
}

// look gathers what the gate needs; it lists pods when that matters or the last list is old.
func (d *Daemon) look(ctx context.Context, running bool) (gate.Input, error) {
	if err := d.Store.Check(); err != nil {
		return d.noStage(err)
	}
	pending, err := d.Store.Pending()
	if err != nil {
		return d.noStage(err)
	}
	journal, err := d.Store.Journal()
	if err != nil {
		log.G(ctx).WithError(err).Error("the journal cannot be read")
	}
	in := gate.Input{Pending: pending, Unfinished: journal != nil || err != nil, Died: d.Store.Interrupted(), Running: running || d.Store.Locked(), Answers: true}
	if in.Running {
		in.Unfinished, in.Died = false, false
	}
	snap := d.State.Snapshot()
	work := len(pending) > 0 || in.Unfinished || in.Died
	if !in.Running && (work || d.listDue(snap.Listed, time.Now())) {
		if err := d.list(ctx); err != nil {
			in.Synced, in.Answers = err.Error(), false
		}
		snap = d.State.Snapshot()
	}
	if s := d.NRI(); in.Synced == "" && !s.Connected && time.Since(s.Since) < nriGrace {
		in.Synced = "NRI is not connected"
	}
	d.Drains.Refresh()
	in.Draining, in.Emptying, in.Drained = d.Drains.Active(), d.busy, d.Drains.Done()
	in.Stops = d.stops(ctx, work)
	in.Fault = d.waiting(time.Now())
	in.Now = time.Now()
	in.Installers, in.Users = d.Rules.Installers(snap, in.Now), snap.ByHandler()
	for _, p := range snap.Pods {
		if p.Stopping() {
			in.Stopping = append(in.Stopping, p)
		}
	}
	if h := d.Store.Hold(); h.Who != "" {
		in.Hold = h.Who
	}
	return in, nil
}

func (d *Daemon) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	began := time.Now()
	d.CRI.Reconnect()
	rt, err := d.CRI.Runtime(ctx)
	if err == nil {
		var pods []*node.Pod
		if pods, err = d.CRI.List(ctx); err == nil {
			d.State.Replace(pods, began)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.Runtime = control.Runtime{Name: rt.Name, Version: rt.Version, Unit: d.Unit, Listed: began}
	d.known(rt.Handlers)
	if err != nil {
		d.status.Runtime.Error = err.Error()
		d.status.Runtime.Listed = d.State.Snapshot().Listed
	}
	return err
}
