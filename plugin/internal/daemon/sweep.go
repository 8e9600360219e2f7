package daemon

import (
	"time"

	"quiesce/plugin/internal/gate"
)

// sweepEach is how often shims are looked at that nobody needs: the last pod of an old version may end at any time.
const sweepEach = 30 * time.Second

// sweeps tells whether apply should run only to remove what is of no use any more. Nothing else goes on then.
func (d *Daemon) sweeps(in gate.Input, dec gate.Decision) bool {
	if d.Unused == nil || dec.Phase != gate.Idle || len(dec.Blockers) > 0 || in.Now.Sub(d.swept) < sweepEach {
		return false
	}
	d.swept = in.Now
	return d.Unused()
}
