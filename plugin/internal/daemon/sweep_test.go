package daemon

import (
	"testing"
	"time"

	"quiesce/plugin/internal/gate"
)

// Apply runs for shims that nobody needs only when nothing else goes on, and not all the time.
func TestSweeps(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	idle := gate.Decision{Phase: gate.Idle}
	unused := true
	d := &Daemon{Unused: func() bool { return unused }}
	for i, step := range []struct {
		after  time.Duration
		dec    gate.Decision
		unused bool
		want   bool
	}{
		{0, gate.Decision{Phase: gate.Collecting}, true, false},
		{0, gate.Decision{Phase: gate.Idle, Blockers: []gate.Blocker{{Reason: gate.Draining}}}, true, false},
		{0, idle, true, true},
		{time.Second, idle, true, false},
		{sweepEach, gate.Decision{Phase: gate.Applying}, true, false},
		{sweepEach, idle, false, false},
		{2 * sweepEach, idle, true, true},
	} {
		unused = step.unused
		if got := d.sweeps(gate.Input{Now: now.Add(step.after)}, step.dec); got != step.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
	if (&Daemon{}).sweeps(gate.Input{Now: now}, idle) {
		t.Error("nobody looks, and yet it sweeps")
	}
}
