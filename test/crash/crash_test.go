package crash_test

import (
	"strings"
	"testing"
	"time"

	"quiesce/test/crash"
	"quiesce/test/node"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLoss_b_Crash tries what `make chaos` does, as much of it as a minute allows and other cases each time.
func TestLoss_b_Crash(t *testing.T) {
	t.Parallel()
	plan := crash.Plan{Seed: crash.Seed(), Files: 100, Benches: 2, Limit: 55 * time.Second, Say: t.Logf}
	t.Logf("CHAOS_SEED=%d", plan.Seed)
	rep, err := plan.Run(t.Context())
	check(t, err)
	t.Logf("%d cases: %v", rep.Cases, rep.By)
	for _, w := range append(rep.Wrong, rep.Faults...) {
		t.Error(w)
	}
	if rep.Cases < 4 {
		t.Errorf("only %d cases were tried", rep.Cases)
	}
}

// TestLoss_b_WithoutSync: the power cut of the other test is one. Where nothing is synced, what was said to be done is not.
func TestLoss_b_WithoutSync(t *testing.T) {
	t.Parallel()
	kit, err := node.Prepare(t.Context())
	check(t, err)
	mutant, err := crash.NoSync(kit)
	check(t, err)
	b, err := crash.Boot(t.Context(), "crash-nosync", mutant)
	check(t, err)
	t.Cleanup(func() { check(t, b.Close()) })
	o, err := b.Try(t.Context(), crash.Case{
		Story: crash.Install, Step: 2, Name: "settled", Action: crash.CutPower, Written: []string{"/var/lib/quiesce"},
	})
	check(t, err)
	if len(o.Wrong) == 0 {
		t.Errorf("nothing is wrong: %+v", o)
	}
	t.Log(strings.Join(o.Wrong, "; "))
}
