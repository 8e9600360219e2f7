package fault_test

import (
	"context"
	"testing"
	"time"

	"quiesce/test/lab"
)

// TestForgedEndOfTheRestart: anyone on the node's bus may say that systemd's job has failed; apply believes systemd.
func TestForgedEndOfTheRestart(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "forged", Quiet: 300 * time.Millisecond})
	sh(ctx, t, l, "mkdir -p /run/systemd/system/containerd.service.d; printf '[Service]\\nExecStopPost=/bin/sleep 3\\n' >/run/systemd/system/containerd.service.d/slow.conf; systemctl daemon-reload")
	ctx, cancel := context.WithCancel(ctx)
	told := make(chan string, 1)
	go func() {
		out, _ := l.Exec(ctx, "sh", "-c", `while ! [ -e /run/enough ]; do systemctl list-jobs --no-legend | while read id unit rest; do
			case $unit in containerd.service|quiesce-apply.service)
				dbus-send --system --type=signal /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager.JobRemoved uint32:$id objpath:/org/freedesktop/systemd1/job/$id string:$unit string:failed && echo $unit;;
			esac; done; sleep 0.1; done`)
		told <- out
	}()
	defer cancel()
	stage(ctx, t, l, "forged")
	wantPhase(ctx, t, l, "forged", "live")
	sh(ctx, t, l, "touch /run/enough")
	if out := <-told; !contains(out, "containerd.service") || !contains(out, "quiesce-apply.service") {
		t.Errorf("forged: %q", out)
	}
	wantPod(ctx, t, l, "forged")
	wantDaemonNeverEnded(ctx, t, l)
}
