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
	ctx, l, k := setup(t, 2*time.Minute, lab.Options{Name: "drain-kubelet", Node: node.Config{
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
	check(t, k.sync(ctx, web))
}
