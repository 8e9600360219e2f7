package drain

import (
	"context"
	"testing"
	"time"

	"quiesce/test/lab"
)

// TestDrain_d has a kubelet that makes anew at once what ends.
func TestDrain_d(t *testing.T) {
	t.Parallel()
	t.Run("all tiers", func(t *testing.T) {
		t.Parallel()
		ctx, l, k := setup(t, lab.Options{Name: "drain-d"})
		f, err := MeasureFence(ctx, l, k, nil)
		check(t, err)
		t.Logf("%+v", f)
		if f.Refused < Refusals || f.Created > 0 || f.Recreated != FencedPods {
			t.Errorf("%+v, want %d refusals at least, nothing created, %d pods back", f, Refusals, FencedPods)
		}
	})
	t.Run("crashes", crashesBehindFence)
}

// crashesBehindFence has a network pod crash before its turn, and then the daemon.
func crashesBehindFence(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-d"})
	var pods []Pod
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		pods = append(pods, Victim("default", name, 10, "-after", "300ms"))
	}
	infra := Victim("kube-system", "net", 10, "-after", "300ms")
	infra.Containers[0].Mounts["/opt/cni/bin"] = "/cni"
	slow := Victim("kube-system", "slow", 20, "-after", "6s")
	sh(ctx, t, l, "mkdir -p /opt/cni/bin")
	check(t, k.Start(ctx, append(pods, infra, slow)...))
	started(ctx, t, l, append(names(pods), "net", "slow")...)
	defer k.Keep(ctx)()
	began := time.Now()
	drained := make(chan error, 1)
	go func() {
		_, err := l.Quiesce(ctx, "drain", "--all", "--yes")
		drained <- err
	}()
	// While workloads go, the network pod crashes and comes back: its turn is later.
	check(t, l.Until(ctx, "slow is signalled", func(context.Context) (bool, error) { return len(signals(t, l, "slow")) == 1, nil }))
	sh(ctx, t, l, "pkill -KILL -f 'evidence/[n]et'")
	check(t, l.Until(ctx, "net is back", func(context.Context) (bool, error) {
		ev, err := Events(l, "net")
		return err == nil && len(ev) == 2 && ev[1].What == "start", nil
	}))
	check(t, <-drained)
	if n := k.Made(began); n != 1 {
		t.Errorf("%d containers were created while draining, want net's only", n)
	}
	fenced := time.Now()
	check(t, l.Until(ctx, "100 refusals", func(context.Context) (bool, error) { return k.Refused() >= 100, nil }))
	created := k.Made(fenced)
	status, err := l.Quiesce(ctx, "status")
	check(t, err)
	t.Logf("%d refusals, %d created behind the fence\n%s", k.Refused(), created, status)
	if created > 0 {
		t.Errorf("%d containers were created behind the fence", created)
	}
	// A daemon that crashes is back with its fence.
	sh(ctx, t, l, "systemctl kill -s KILL quiesce")
	check(t, l.Until(ctx, "the daemon is back", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && s.NRI.Connected, nil
	}))
	check(t, l.Until(ctx, "what slipped through is stopped", func(ctx context.Context) (bool, error) { return len(running(ctx, t, l)) == 0, nil }))
	fenced = time.Now()
	n := k.Refused()
	check(t, l.Until(ctx, "more refusals", func(context.Context) (bool, error) { return k.Refused() >= n+20, nil }))
	if created := k.Made(fenced); created > 0 {
		t.Errorf("%d containers were created behind the fence of the new daemon", created)
	}
	sh(ctx, t, l, "rm -f "+Evidence+"/*")
	_, err = l.Quiesce(ctx, "resume")
	check(t, err)
	started(ctx, t, l, append(names(pods), "net", "slow")...)
}
