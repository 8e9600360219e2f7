package loss_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"quiesce/test/loss"
	"quiesce/test/node"
)

const (
	quiesce = "/opt/quiesce/bin/quiesce"
	try     = "/opt/quiesce/bin/try"
	store   = "/var/lib/quiesce/store"
)

// outcome is what try prints.
type outcome struct {
	Protected           int
	Unprotected         []string
	Early               bool
	Frozen, Thawed      time.Time
	LongestMS, FreezeMS float64
}

func (o *outcome) UnmarshalJSON(b []byte) error {
	var v struct {
		Protected   int
		Unprotected []string
		Early       bool
		Frozen      time.Time
		Thawed      time.Time
		Longest     float64 `json:"longest_ms"`
		Freeze      float64 `json:"freeze_ms"`
	}
	err := json.Unmarshal(b, &v)
	*o = outcome{v.Protected, v.Unprotected, v.Early, v.Frozen, v.Thawed, v.Longest, v.Freeze}
	return err
}

func boot(t *testing.T, name string) (context.Context, *node.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	n := node.New(t, node.Config{
		Name:     name,
		Programs: map[string]string{"./plugin": quiesce, "./plugin/internal/freeze/try": try},
		Files:    map[string]node.File{store + "/.keep": {}},
		Images:   []node.Image{loss.DueImage()},
	})
	return ctx, n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tryIt runs try to its end.
func tryIt(ctx context.Context, n *node.Node, args ...string) (outcome, error) {
	return tryIn(ctx, n, nil, args...)
}

// tryIn runs try by way of another program.
func tryIn(ctx context.Context, n *node.Node, before []string, args ...string) (outcome, error) {
	var o outcome
	out, err := n.Exec(ctx, slices.Concat(before, []string{try}, args)...)
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal([]byte(out), &o)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// TestLoss_FrozenRestarts restarts containerd with the containers frozen, and beside it without.
func TestLoss_FrozenRestarts(t *testing.T) {
	t.Parallel()
	const containers, restarts, span = 40, 15, 8 * time.Second
	ctx, n := boot(t, "loss-frozen")
	w, err := loss.Start(ctx, n, "frozen", 1, containers)
	check(t, err)
	rng := rand.New(rand.NewPCG(2, 2))
	gap := func() { wait(ctx, time.Duration(50+rng.IntN(100))*time.Millisecond) }
	check(t, w.Go(span))
	due, longest := 0, 0.0
	for range restarts {
		o, err := tryIt(ctx, n)
		check(t, err)
		t.Logf("%d frozen, %v unprotected, %.0f ms, freezing took %.0f ms", o.Protected, o.Unprotected, o.LongestMS, o.FreezeMS)
		due, longest = due+w.Due(o.Frozen, o.Thawed), max(longest, o.LongestMS)
		if o.Early {
			t.Error("something thawed them before the end")
		}
		gap()
	}
	lost, err := w.Lost(ctx)
	check(t, err)
	t.Logf("%d containers, %d restarts, %d due while frozen, %d lost, frozen %.0f ms at most", containers, restarts, due, len(lost), longest)
	if len(lost) > 0 || due == 0 {
		t.Errorf("%d were due while frozen, lost: %q", due, lost)
	}

	w, err = loss.Start(ctx, n, "naive", 3, containers)
	check(t, err)
	check(t, w.Go(span))
	for range restarts {
		check(t, n.RestartContainerd(ctx))
		wait(ctx, 300*time.Millisecond)
	}
	lost, err = w.Lost(ctx)
	check(t, err)
	t.Logf("without freezing %d of %d are lost", len(lost), containers)
	if len(lost) == 0 {
		t.Error("the test is too easy: a plain restart lost nothing")
	}
	check(t, nothingFrozen(ctx, n))
}

// nothingFrozen looks at every freezer of the node.
func nothingFrozen(ctx context.Context, n *node.Node) error {
	out, err := n.Exec(ctx, "sh", "-c", `grep -Ls '^THAWED' $(find /sys/fs/cgroup/freezer -name freezer.state 2>/dev/null) /dev/null
		grep -ls 'frozen 1' $(find /sys/fs/cgroup/unified -name cgroup.events 2>/dev/null) /dev/null; true`)
	if err == nil && out != "/dev/null\n" {
		err = fmt.Errorf("frozen: %s", out)
	}
	return err
}
