package daemon

import (
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
type Fence struct{ until atomic.Int64 }

var errFence = errors.New("quiesce is about to restart containerd: try again in a moment")

// Set puts the fence up for fenceTime, or takes it down.
func (f *Fence) Set(up bool) {
	if up {
		f.until.Store(time.Now().Add(fenceTime).UnixNano())
	} else {
		f.until.Store(0)
	}
}

// Refuse is called in NRI's CreateContainer.
func (f *Fence) Refuse(*node.Pod) error {
	if time.Now().UnixNano() < f.until.Load() {
		return errFence
	}
	return nil
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
