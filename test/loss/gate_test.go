package loss_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/loss"
	"quiesce/test/node"
)

// TestLoss_a is the story of `make demo-loss`.
func TestLoss_a_NoExitCodeIsLostThroughTheGate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	story := loss.Story{Containers: 50, Restarts: 20, Seed: 7, Say: t.Logf}
	l, err := lab.Boot(ctx, story.Lab())
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	o, lost, err := story.Run(ctx, l)
	check(t, err)
	if o.Lost > 0 || o.DueWhileFrozen < 20 {
		t.Errorf("%+v; lost: %q", o, lost)
	}
	if o.NaiveLost == 0 {
		t.Error("the test is too easy: a plain restart lost nothing")
	}
	if err := nothingFrozen(ctx, l.Node); err != nil {
		t.Error(err)
	}
}

// frozenApply boots a lab with a pod that notes its SIGTERM, and returns when apply has frozen it for a restart that
// takes long.
func frozenApply(t *testing.T, name string) (context.Context, *lab.Lab) {
	t.Helper()
	pod := node.Shell("trap 'date +%s >/mark/term; exit 0' TERM; while :; do sleep 0.05; done")
	pod.Mounts = []node.Mount{{Host: "/var/lib/mark", Container: "/mark"}}
	ctx, l := lab.New(t, lab.Options{Name: name, Quiet: 100 * time.Millisecond, Node: node.Config{
		SystemdCgroup: true,
		Files:         map[string]node.File{"/var/lib/mark/.keep": {}},
	}})
	_, err := l.StartPod(ctx, node.Pod{Name: "worker", Containers: []node.Container{pod}})
	check(t, err)
	check(t, l.WriteFile("/etc/systemd/system/containerd.service.d/slow.conf", []byte("[Service]\nExecStartPre=/bin/sleep 60\n"), 0o644))
	_, err = l.Exec(ctx, "systemctl", "daemon-reload")
	check(t, err)
	_, err = l.Installer(ctx, "install", "--handler", "x", "--runtime-type", "io.containerd.runc.v2")
	check(t, err)
	check(t, l.Until(ctx, "the pod is frozen", func(ctx context.Context) (bool, error) {
		err := nothingFrozen(ctx, l.Node)
		return err != nil && strings.HasPrefix(err.Error(), "frozen"), nil
	}))
	return ctx, l
}

// TestLoss_k powers the node off while a pod is frozen: it gets its SIGTERM all the same.
func TestLoss_k_PoweroffInTheMiddleOfApply(t *testing.T) {
	t.Parallel()
	ctx, l := frozenApply(t, "loss-k")
	out, err := l.Exec(ctx, "systemd-inhibit", "--list", "--no-legend")
	if err != nil || !strings.Contains(out, "quiesce") || !strings.Contains(out, "block") {
		t.Errorf("inhibitors: %q, %v; want quiesce's", out, err)
	}
	began := time.Now()
	check(t, l.Shutdown(ctx))
	t.Logf("off after %v", time.Since(began))
	if b, err := l.ReadFile("/var/lib/mark/term"); err != nil || len(b) == 0 {
		t.Errorf("the pod got no SIGTERM: %v", err)
	}
	if b, err := l.ReadFile(store + "/freeze.json"); err == nil {
		t.Errorf("the list is left: %s", b)
	}
}

// TestLoss_b kills apply by SIGKILL while a pod is frozen, and then its whole cgroup.
func TestLoss_b_ApplyKilled(t *testing.T) {
	t.Parallel()
	for _, whom := range []string{"main", "all"} {
		t.Run(whom, func(t *testing.T) {
			t.Parallel()
			ctx, l := frozenApply(t, "loss-b-"+whom)
			_, err := l.Exec(ctx, "systemctl", "kill", "--kill-whom="+whom, "--signal=KILL", "quiesce-apply.service")
			check(t, err)
			began := time.Now()
			check(t, l.Until(ctx, "nothing is frozen", func(ctx context.Context) (bool, error) { return nothingFrozen(ctx, l.Node) == nil, nil }))
			t.Logf("thawed after %v", time.Since(began))
			if time.Since(began) > soon {
				t.Error("too late")
			}
		})
	}
}
