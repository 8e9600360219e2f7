package drain

import (
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

// TestDrain_StopInFlight: with containerd's metrics on, a stop that lasts keeps the gate closed.
func TestDrain_StopInFlight(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "stop-in-flight", Shims: []string{"spin-v2"}})
	if s, err := l.Quiesce(ctx, "status"); err != nil || !strings.Contains(s, "stops are not observable") {
		t.Errorf("without metrics: %v\n%s", err, s)
	}
	sh(ctx, t, l, "printf '\\n[metrics]\\naddress = \"127.0.0.1:1338\"\\n' >>/etc/containerd/config.toml && systemctl restart containerd")
	check(t, k.Start(ctx, Victim("default", "deaf", 60, "-deaf")))
	started(ctx, t, l, "deaf")
	sh(ctx, t, l, "systemd-run --unit stopping crictl stop --timeout 10 $(crictl ps -q --name main)")
	_, err := l.RunPod(ctx, lab.InstallPod("install", "spin-v2", 0, 0))
	check(t, err)
	waitBlocker(ctx, t, l, "stop in flight")
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	starts, err := l.Starts(ctx)
	check(t, err)
	got := signals(t, l, "deaf")
	if len(got) != 1 || starts[len(starts)-1].Sub(got[0].At) < 9*time.Second {
		t.Errorf("deaf got %v, containerd was restarted at %v", got, starts[len(starts)-1])
	}
}
