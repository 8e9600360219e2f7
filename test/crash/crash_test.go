package crash_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"quiesce/test/crash"
	"quiesce/test/mutant"
	"quiesce/test/node"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLoss_b_Crash tries what `make chaos` does, as much of it as 40 seconds allow.
func TestLoss_b_Crash(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the test's five minutes are over"))
	defer cancel()
	plan := crash.Plan{Seed: crash.Seed(), Files: 100, Benches: 2, Limit: 40 * time.Second, Say: t.Logf}
	t.Logf("CHAOS_SEED=%d", plan.Seed)
	rep, err := plan.Run(ctx)
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
	for name, written := range map[string][]string{"no-sync": {"/var/lib/quiesce"}, "no-file-sync": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, errors.New("the test's three minutes are over"))
			defer cancel()
			kit, err := node.Prepare(ctx)
			check(t, err)
			build, err := mutant.Flag(kit.Module(), t.TempDir(), name)
			check(t, err)
			b, err := crash.Boot(ctx, "crash-"+name, build)
			check(t, err)
			t.Cleanup(func() { check(t, b.Close()) })
			o, err := b.Try(ctx, crash.Case{Story: crash.Install, Step: 2, Name: "settled", Action: crash.CutPower, Written: written})
			if err == nil && len(o.Wrong) == 0 {
				t.Errorf("nothing is wrong: %+v", o)
			}
			t.Log(strings.Join(o.Wrong, "; "), err)
		})
	}
}
