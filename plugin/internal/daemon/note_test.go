package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/stage"
)

// Readers of the results see the gate and the runtime as they are, though nobody asks the daemon.
func TestNote(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stage")
	if err := stage.Create(dir); err != nil {
		t.Fatal(err)
	}
	store, err := stage.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pid, connected := 7, now
	d := &Daemon{Store: store, Found: func() *profile.Found { return &profile.Found{PID: pid} }, NRI: func() nri.Status { return nri.Status{Since: connected} }}
	idle, busy := gate.Decision{Phase: gate.Idle, Since: now}, gate.Decision{Phase: gate.Collecting, Since: now, Blockers: []gate.Blocker{
		{Reason: gate.InstallersInFlight, Who: []string{"kube-system/x"}}, {Reason: gate.PodsUseHandler, Entry: "e"},
	}}
	for i, step := range []struct {
		after   time.Duration
		pid     int
		nri     time.Duration
		applied bool
		dec     gate.Decision
		phase   gate.Phase
		sees    int
	}{
		{0, 7, 0, false, idle, gate.Idle, 7},
		{tick / 2, 7, 0, false, busy, gate.Idle, 7}, // too soon
		{tick, 8, 0, false, busy, gate.Collecting, 7},
		{2 * tick, 8, tick, false, busy, gate.Collecting, 8}, // NRI was connected anew
		{3 * tick, 9, tick, false, idle, gate.Idle, 8},
		{4 * tick, 9, tick, true, idle, gate.Idle, 9},
		{5*tick + lookEach, 10, tick, false, idle, gate.Idle, 10},
	} {
		pid, connected = step.pid, now.Add(step.nri)
		if step.applied {
			d.applied(t.Context(), nil)
		}
		d.note(t.Context(), step.dec, now.Add(step.after))
		var n struct {
			profile.Found
			Gate stage.GateState
		}
		if err := stage.Node(filepath.Join(dir, "results"), &n); err != nil {
			t.Fatal(err)
		}
		blockers := map[gate.Phase]int{gate.Collecting: 1}[step.phase]
		if n.Gate.Phase != string(step.phase) || n.PID != step.sees || !n.Gate.Since.Equal(now) || len(n.Gate.Blockers) != blockers {
			t.Errorf("step %d: %+v", i, n)
		}
	}
}
