package kubernetes

import (
	"strings"
	"testing"
	"time"

	"quiesce/test/kube"
)

// TestKubernetes_g_GracefulNodeShutdown has the kubelet's own graceful shutdown on: at a shutdown it is the kubelet that stops
// the pods, when the runtime's unit is stopped it is quiesce; every container gets one SIGTERM.
func TestKubernetes_g_GracefulNodeShutdown(t *testing.T) {
	t.Parallel()
	ctx, c := drainable(t, "kube-g", kube.Options{Kubelet: "shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 5s\n"})
	out, err := c.Exec(ctx, "systemd-inhibit", "--list", "--no-legend")
	check(t, err)
	if !strings.Contains(out, "kubelet") {
		t.Fatalf("the kubelet does not delay a shutdown: %s", out)
	}

	began := time.Now()
	_, err = c.Exec(ctx, "systemctl", "stop", "containerd.service")
	check(t, err)
	wantDrained(ctx, t, c, began, "stop of containerd.service")
	began = time.Now()
	_, err = c.Exec(ctx, "systemctl", "start", "containerd.service")
	check(t, err)
	back(ctx, t, c, began)

	began = time.Now()
	check(t, c.Shutdown(ctx))
	for _, v := range victims {
		if got := signals(t, c, v, began); len(got) != 1 {
			t.Errorf("%s got %d SIGTERMs: %v", v, len(got), got)
		}
	}
	journal, err := c.Journal(ctx)
	check(t, err)
	for _, want := range []string{"Shutdown manager detected new shutdown event", "the kubelet delays it to stop pods itself"} {
		if !strings.Contains(journal, want) {
			t.Errorf("the journal does not say %q", want)
		}
	}
	check(t, c.Start(ctx))
	check(t, c.WaitReady(ctx))
}
