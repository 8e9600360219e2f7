package drain

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

// TestDrain_Handler removes and replaces a handler whose pods run, with --drain, while a kubelet starts everything again
// that stops. A plain removal waits, and refuses nobody.
func TestDrain_Handler(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-handler", Shims: []string{"spin-v2"}})
	install := func(job string, args ...string) {
		t.Helper()
		_, err := l.RunPod(ctx, lab.InstallPod(job, "spin-v2", 0, 0, args...))
		check(t, err)
	}
	install("install")
	_, err := l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	app, db, other := Victim("default", "app", 20, "-after", "1s"), Victim("default", "db", 20, "-after", "2s"), Victim("default", "other", 20)
	app.Handler, db.Handler = "spin-v2", "spin-v2"
	db.Annotations["quiesce.internal/after"] = "app=app"
	check(t, k.Start(ctx, app, db, other))
	started(ctx, t, l, "app", "db", "other")

	_, err = l.RunPod(ctx, lab.UninstallPod("uninstall", "spin-v2"))
	check(t, err)
	waitBlocker(ctx, t, l, "pods use the handler")
	late := Victim("default", "late", 20)
	late.Handler = "spin-v2"
	check(t, k.Start(ctx, late))
	started(ctx, t, l, "late")
	if n := len(signals(t, l, "app")); n != 0 || k.Refused() != 0 {
		t.Errorf("a plain removal: %d signals, %d refusals", n, k.Refused())
	}

	defer k.Keep(ctx)()
	drainedForRemoval(ctx, t, l, k)

	install("install-again")
	backAgain(ctx, t, l, 1, "app", "db", "late")
	install("replace", "--drain", "--set", "pod_annotations=example.invalid/x")
	// A container that was made while the plugin registered anew after the restart is stopped as well, with its grace.
	backAgain(ctx, t, l, 2, "app", "db", "late")
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	if s := signals(t, l, "other"); len(s) != 0 {
		t.Errorf("other got %v", s)
	}
	noFence(ctx, t, l)
}

// drainedForRemoval removes the handler with --drain: db after app, once each, and nobody else.
func drainedForRemoval(ctx context.Context, t *testing.T, l *lab.Lab, k *Kubelet) {
	t.Helper()
	_, err := l.RunPod(ctx, lab.UninstallPod("uninstall-now", "spin-v2", "--drain"))
	check(t, err)
	_, err = l.WaitPhase(ctx, "spin-v2", "removed")
	check(t, err)
	stopped := time.Now()
	r := report(ctx, t, l)
	t.Logf("%s of %d pods, %d creations refused", r.Trigger, len(r.Pods), k.Refused())
	if r.Trigger != "drain for a staged change" || k.Refused() == 0 {
		t.Errorf("trigger %q, %d creations refused", r.Trigger, k.Refused())
	}
	for _, name := range []string{"app", "db", "late"} {
		if got := signals(t, l, name); len(got) != 1 {
			t.Errorf("%s got %v", name, got)
		}
	}
	if a, d := signals(t, l, "app"), signals(t, l, "db"); d[0].At.Before(a[0].At.Add(time.Second)) {
		t.Errorf("db was signalled %v after app, which takes 1 s", d[0].At.Sub(a[0].At))
	}
	if got := sortedRunning(ctx, t, l); !slices.Equal(got, []string{"other"}) {
		t.Errorf("running: %v", got)
	}
	if s := signals(t, l, "other"); len(s) != 0 || k.Made(stopped) > 0 {
		t.Errorf("other got %v", s)
	}
	noFence(ctx, t, l)
	// A shim ends some time after its sandbox was stopped.
	if left := sh(ctx, t, l, "timeout 30 sh -c 'while pgrep -f [c]ontainerd-shim-spin; do sleep 0.1; done' >/dev/null || pgrep -af '[c]ontainerd-shim-spin'; true"); left != "" {
		t.Errorf("shims of the removed handler are left:\n%s", left)
	}
}

// backAgain waits until pods run again that were each signalled at least n times: once in every run but the last.
func backAgain(ctx context.Context, t testing.TB, l *lab.Lab, n int, pods ...string) {
	t.Helper()
	check(t, l.Until(ctx, "the pods are back", func(context.Context) (bool, error) {
		for _, name := range pods {
			ev, err := Events(l, name)
			if s := count(ev, "terminated"); err != nil || s < n || count(ev, "start") != s+1 {
				return false, err
			}
		}
		return true, nil
	}))
}

func count(all []Event, what string) (n int) {
	for _, e := range all {
		if e.What == what {
			n++
		}
	}
	return n
}

// sortedRunning lists the pods that run, sorted.
func sortedRunning(ctx context.Context, t testing.TB, l *lab.Lab) []string {
	got := running(ctx, t, l)
	slices.Sort(got)
	return got
}

func waitBlocker(ctx context.Context, t testing.TB, l *lab.Lab, reason string) {
	t.Helper()
	check(t, l.Until(ctx, "the gate is closed by "+reason, func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		for _, b := range s.Gate.Blockers {
			if b.Reason == reason {
				return true, nil
			}
		}
		return false, err
	}))
}

func noFence(ctx context.Context, t testing.TB, l *lab.Lab) {
	t.Helper()
	check(t, l.Until(ctx, "the fence is down", func(ctx context.Context) (bool, error) {
		s, err := l.Quiesce(ctx, "status")
		return err == nil && strings.Contains(s, "no fence"), nil
	}))
}
