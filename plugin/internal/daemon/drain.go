package daemon

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
)

// Drains follows the drain's state on disk: whoever drains is another process, and the fence is the daemon's.
type Drains struct {
	store  *drain.Store
	policy drain.Policy
	boot   string

	fence   atomic.Pointer[drain.Fence]
	refused atomic.Int64

	mu     sync.Mutex
	read   time.Time // of the state that was read last
	status control.Drain
	gate   bool
	own    []string        // handlers of the gate's own drain
	done   map[string]bool // handlers whose pods were drained, and whose fence is up
}

// GateTrigger is the trigger of the gate's own drains.
const GateTrigger = "drain for a staged change"

// NewDrains reads the state: the fence is up before the plugin registers.
func NewDrains(store *drain.Store, policy drain.Policy) *Drains {
	d := &Drains{store: store, policy: policy, boot: drain.Boot()}
	_ = d.Reload() // in the status
	return d
}

// Reload reads the state anew.
func (d *Drains) Reload() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.store.Changed()
	st, err := d.store.Load()
	if err != nil {
		d.status.Error = err.Error() // the fence stays as it is
		return err
	}
	d.read, d.status, d.gate, d.own, d.done = at, control.Drain{}, false, nil, nil
	f := drain.NewFence(st, d.boot, d.policy)
	d.fence.Store(f)
	if st == nil {
		return nil
	}
	d.status = control.Drain{Phase: st.Phase, What: st.Trigger + ": " + st.Selection.String(), Began: st.Began, Fence: f != nil, Took: st.Took(time.Now()), Outcomes: st.Outcomes()}
	if st.Current < len(st.Steps) {
		d.status.Tier = st.Steps[st.Current].Name
	}
	if st.Active(d.boot) && st.Phase == drain.Drained {
		d.done = handlers(st.Selection)
	}
	if st.Active(d.boot) && st.Trigger == GateTrigger {
		d.own = st.Selection.Handlers
		return nil
	}
	d.gate = st.Active(d.boot) && (st.Phase != drain.Drained || st.Selection.All)
	return nil
}

// Refresh reads the state if it was written since.
func (d *Drains) Refresh() {
	d.mu.Lock()
	fresh := d.store.Changed().Equal(d.read)
	d.mu.Unlock()
	if !fresh {
		_ = d.Reload() // in the status
	}
}

// Own lists the handlers of the gate's own drain; none if there is none.
func (d *Drains) Own() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own
}

// Done are the handlers whose pods were drained, by whomever, and whose fence is up.
func (d *Drains) Done() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

func handlers(s drain.Selection) map[string]bool {
	done := map[string]bool{}
	if s.Handler != nil {
		done[*s.Handler] = true
	}
	for _, h := range s.Handlers {
		done[h] = true
	}
	return done
}

// Active tells whether nothing may be applied: pods are being drained, but by the gate, or the whole node is.
func (d *Drains) Active() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gate
}

// Status is for people.
func (d *Drains) Status() control.Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	s.Refused = d.refused.Load()
	return s
}

// Refuse is called in NRI's CreateContainer.
func (d *Drains) Refuse(p *node.Pod) error {
	err := d.fence.Load().Refuse(p)
	if err != nil {
		d.refused.Add(1)
	}
	return err
}

// Guards are all fences together.
type Guards struct {
	Apply *Fence
	Drain *Drains
}

// Refuse is part of nri.Fence.
func (g Guards) Refuse(p *node.Pod) error { return errors.Join(g.Apply.Refuse(p), g.Drain.Refuse(p)) }

// DrainChanged is part of control.Backend.
func (d *Daemon) DrainChanged() error { return d.Drains.Reload() }
