package fault_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

// TestLoss_h_SystemdInTheMiddle: while apply waits for containerd, the bus daemon is restarted, systemd reads its units
// again, systemd executes itself anew, quiesce is upgraded. The change goes live with one restart each.
func TestLoss_h_SystemdInTheMiddle(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "fault-h", Quiet: 300 * time.Millisecond, Config: "verifyTimeout = '25s'"})
	check(t, l.WriteFile("/etc/systemd/system/containerd.service.d/slow.conf", []byte("[Service]\nExecStartPre=/bin/sh -c 'test -e /root/fast || sleep 3'\n"), 0o644))
	sh(ctx, t, l, "systemctl daemon-reload; cp /root/quiesce/quiesce /root/quiesce/other; printf x >>/root/quiesce/other")
	for i, event := range []struct{ name, script string }{
		{"dbus", "systemctl restart dbus.service"},
		{"reload", "systemctl daemon-reload"},
		{"reexec", "systemctl daemon-reexec"},
		{"twice", "systemctl daemon-reexec; systemctl daemon-reexec; systemctl daemon-reload"},
		{"upgrade", "/root/quiesce/quiesce-installer host --binary /root/quiesce/other"},
		{"killed", "systemctl kill -s KILL dbus.service quiesce.service"},
	} {
		stage(ctx, t, l, event.name)
		check(t, l.Until(ctx, "containerd is being started", func(ctx context.Context) (bool, error) {
			out, err := l.Exec(ctx, "systemctl", "show", "containerd.service", "-p", "SubState")
			return strings.Contains(out, "start-pre"), err
		}))
		sh(ctx, t, l, event.script)
		wantPhase(ctx, t, l, event.name, "live")
		check(t, l.Until(ctx, "the daemon is back, and idle", func(ctx context.Context) (bool, error) {
			s, err := l.Status(ctx)
			return err == nil && s.Gate.Phase == "idle" && s.NRI.Connected, nil
		}))
		s, err := l.Status(ctx)
		check(t, err)
		if s.LastRestart.Done != i+1 || s.LastRestart.Broken != 0 {
			t.Fatalf("%s: %d restarts were verified, %d failed", event.name, s.LastRestart.Done, s.LastRestart.Broken)
		}
	}
	if out := sh(ctx, t, l, "ls -l /proc/$(systemctl show -p MainPID --value quiesce.service)/exe; cmp /opt/quiesce/bin/quiesce /root/quiesce/other"); strings.Contains(out, "deleted") {
		t.Errorf("the daemon is the old one: %s", out)
	}
	sh(ctx, t, l, "touch /root/fast")
	wantPod(ctx, t, l, "reexec")
}
