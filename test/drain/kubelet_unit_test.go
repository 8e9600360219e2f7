package drain

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestDrain_KubeletUnit stops the runtime alone: the drain stops the kubelet first, and the next start starts it.
func TestDrain_KubeletUnit(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-kubelet", Node: node.Config{
		Files: map[string]node.File{"/etc/systemd/system/kubelet.service": {
			Content: "[Unit]\nAfter=containerd.service\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
		}},
		Enable: []string{"kubelet.service"},
	}})
	web := Victim("default", "web", 10, "-after", "500ms")
	check(t, k.Start(ctx, web))
	started(ctx, t, l, "web")
	sh(ctx, t, l, "systemctl restart containerd")
	check(t, l.WaitCRI(ctx))
	if got := sh(ctx, t, l, "systemctl is-active kubelet"); got != "active\n" || len(signals(t, l, "web")) != 0 {
		t.Errorf("after a restart of the runtime the kubelet is %s", got)
	}
	began := time.Now()
	sh(ctx, t, l, "systemctl stop containerd")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if got := sh(ctx, t, l, "systemctl is-active kubelet || true"); got != "inactive\n" {
		t.Errorf("after a stop of the runtime the kubelet is %s", got)
	}
	if len(signals(t, l, "web")) != 1 {
		t.Error("web was not stopped")
	}
	sh(ctx, t, l, "timeout 20 systemctl start containerd")
	check(t, l.Until(ctx, "the kubelet is started", func(ctx context.Context) (bool, error) {
		out, err := l.Exec(ctx, "systemctl", "is-active", "kubelet")
		return err == nil && strings.TrimSpace(out) == "active", nil
	}))
	check(t, l.WaitCRI(ctx))
	check(t, k.sync(ctx, web))
	if got := sh(ctx, t, l, "systemctl show -P NRestarts containerd"); got != "0\n" {
		t.Errorf("containerd ended by itself: %s", got)
	}
}

// TestDrain_StopInStart stops the runtime while the drain unit is still starting: systemd skips its ExecStop then.
func TestDrain_StopInStart(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-early"})
	web := Victim("default", "web", 10, "-after", "500ms")
	check(t, k.Start(ctx, web))
	started(ctx, t, l, "web")
	check(t, l.WriteFile("/etc/systemd/system/quiesce-drain.service.d/slow.conf", []byte("[Service]\nExecStartPre=/bin/sleep 30\n"), 0o644))
	sh(ctx, t, l, "systemctl daemon-reload && systemctl restart containerd")
	check(t, l.Until(ctx, "the drain unit is starting", func(ctx context.Context) (bool, error) {
		out, _ := l.Exec(ctx, "systemctl", "is-active", "quiesce-drain") // it is not active: an exit code other than 0
		return strings.TrimSpace(out) == "activating", nil
	}))
	if got := signals(t, l, "web"); len(got) > 0 {
		t.Fatalf("the restart signalled web: %v", got)
	}
	sh(ctx, t, l, "systemctl stop containerd")
	if got := signals(t, l, "web"); len(got) != 1 {
		t.Errorf("web got %v", got)
	}
	if r := report(ctx, t, l); r.outcomes()["web/main"] != "exited" || r.Phase != "drained" {
		t.Errorf("%+v", r)
	}
}
