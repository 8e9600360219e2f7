package crash_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"quiesce/test/crash"
)

// TestChaos_RealHistories plays the first of what `make chaos` does.
func TestChaos_RealHistories(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the test's five minutes are over"))
	defer cancel()
	seed := crash.Seed()
	t.Logf("CHAOS_SEED=%d", seed)
	h := crash.Histories{Seed: seed, Goal: 4, Benches: 2, Say: t.Logf, Note: func(p crash.Played) error {
		for _, w := range p.Wrong {
			t.Error(w)
		}
		return nil
	}}
	check(t, h.Run(ctx))
}
