package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/node"
)

// fenceTime is how long a fence stays up if nobody takes it down: apply's last look and one restart, on a node that is so
// busy that a list takes its whole time limit.
const fenceTime = time.Minute

// Fence refuses new containers while apply takes its last look, so that none is half made when the runtime goes down.
// The kubelet tries again.
type Fence struct{ until atomic.Pointer[time.Time] } // by the monotonic clock

var errFence = errors.New("quiesce is about to restart containerd: try again in a moment")

// Set puts the fence up for fenceTime, or takes it down.
func (f *Fence) Set(up bool) {
	if up {
		until := time.Now().Add(fenceTime)
		f.until.Store(&until)
	} else {
		f.until.Store(nil)
	}
}

// Refuse is called in NRI's CreateContainer.
func (f *Fence) Refuse(*node.Pod) error {
	if until := f.until.Load(); until != nil && time.Now().Before(*until) {
		return errFence
	}
	return nil
}

const (
	fenceLook = 20 * time.Millisecond
	creation  = 5 * time.Second // from NRI's CreateContainer until CRI lists the container, at most
)

// Fence is part of control.Backend. One that goes up is there when it returns: the plugin is registered, and CRI lists what it
// let through before. Where NRI has been away for nriGrace there is none.
func (d *Daemon) Fence(ctx context.Context, up bool) {
	d.Fences.Set(up)
	if !up {
		return
	}
	tick := time.NewTicker(fenceLook)
	defer tick.Stop()
	for !d.fenced(time.Now()) {
		if d.Hurry != nil {
			d.Hurry()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	d.Fences.Set(true) // for its whole time from now on
}

func (d *Daemon) fenced(now time.Time) bool {
	if s := d.NRI(); !s.Connected {
		return now.Sub(s.Since) > nriGrace
	}
	for _, p := range d.State.Snapshot().Pods {
		for _, c := range p.Containers {
			if c.State == node.Created && node.Younger(c.Created, now, creation) {
				return false
			}
		}
	}
	return true
}

// Inherit puts the fence up if apply runs already: it may have had its last look, and the fence of the daemon before is
// gone. Call it before Run, and before the plugin registers.
func (d *Daemon) Inherit() {
	if d.heir = d.Store.Locked(); d.heir {
		d.Fences.Set(true)
	}
}

// disown takes that fence down once that apply has ended: it may have told nobody.
func (d *Daemon) disown(in gate.Input) {
	if d.heir && !in.Running {
		d.heir = false
		d.Fences.Set(false)
	}
}
