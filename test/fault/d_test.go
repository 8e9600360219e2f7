package fault_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

// harm is what containerd's unit does before it starts, according to the handlers that are configured.
const harm = `#!/bin/sh
has() { grep -rqs "runtimes.*$1" /etc/containerd/conf.d; }
rm -f /etc/containerd/conf.d/quiesce-zz.toml
if has dies; then echo '[[' >/etc/containerd/conf.d/quiesce-zz.toml; fi
if has slow; then sleep 60; fi
if has cancelled; then
	systemctl cancel $(systemctl list-jobs --no-legend | awk '$2 == "containerd.service" { print $1 }')
	sleep 5
fi
if [ -e /root/takes-30s ]; then sleep 30; fi
`

func harmful(t *testing.T, name, config, unit string) (context.Context, *lab.Lab) {
	t.Helper()
	ctx, l := lab.New(t, lab.Options{Name: name, Quiet: 300 * time.Millisecond, Config: config})
	check(t, l.WriteFile("/root/harm.sh", []byte(harm), 0o755))
	check(t, l.WriteFile("/etc/systemd/system/containerd.service.d/harm.conf", []byte(unit+"\n[Service]\nExecStartPre=/root/harm.sh\n"), 0o644))
	sh(ctx, t, l, "systemctl daemon-reload")
	return ctx, l
}

// TestLoss_d_RestartsThatFail: containerd does not start with the change; its job times out; its job is cancelled; it
// starts without CRI. Each is rolled back, and the node is as it was.
func TestLoss_d_RestartsThatFail(t *testing.T) {
	t.Parallel()
	ctx, l := harmful(t, "fault-d", "verifyTimeout = '12s'", "[Unit]\nJobRunningTimeoutSec=7")
	original := files(ctx, t, l)
	app, err := l.StartPod(ctx, lab.HandlerPod("app", "", "sleep 3600"))
	check(t, err)
	for _, tc := range []struct {
		handler, want string
		args          []string
	}{
		{"dies", `"failed"`, nil},
		{"slow", `"timeout"`, nil},
		{"cancelled", `"canceled"`, nil},
		{"nocri", "does not answer", []string{"--set", "base_runtime_spec=/nowhere/spec.json"}},
	} {
		stage(ctx, t, l, tc.handler, tc.args...)
		r := wantPhase(ctx, t, l, tc.handler, "rejected", "rolled back", tc.want)
		if now := files(ctx, t, l); now != original {
			t.Errorf("%s: containerd's files are\n%s\nwere\n%s", tc.handler, now, original)
		}
		check(t, l.WaitCRI(ctx))
		sh(ctx, t, l, "test -d /var/lib/quiesce/store/bad/"+r.ID+"; ! ls /var/lib/quiesce/store/journal.json")
	}
	if s, err := app.Status(ctx, "main"); err != nil || s.GetFinishedAt() != 0 {
		t.Errorf("the pod beside it: %v, %v", s, err)
	}
	stage(ctx, t, l, "good")
	wantPhase(ctx, t, l, "good", "live")
	wantPod(ctx, t, l, "good")
}

// TestLoss_d_ASlowStart: containerd takes 30 s to start. With time enough that is no reason to roll back; without, it is,
// and the node comes back with its old config.
func TestLoss_d_ASlowStart(t *testing.T) {
	t.Parallel()
	ctx, l := harmful(t, "fault-d-slow", "", "")
	stage(ctx, t, l, "first")
	wantPhase(ctx, t, l, "first", "live")
	sh(ctx, t, l, "touch /root/takes-30s")
	stage(ctx, t, l, "patient")
	wantPhase(ctx, t, l, "patient", "live")
	s, err := l.Status(ctx)
	check(t, err)
	if s.LastRestart.Done != 2 || s.LastRestart.Broken != 0 {
		t.Errorf("%d restarts were verified, %d failed", s.LastRestart.Done, s.LastRestart.Broken)
	}
	original := files(ctx, t, l)
	sh(ctx, t, l, "echo \"verifyTimeout = '4s'\" >>/etc/quiesce/config.toml") // apply reads it anew
	stage(ctx, t, l, "hasty")
	r := wantPhase(ctx, t, l, "hasty", "rejected", "rolled back", "not back within 4s")
	if !strings.Contains(r.Reason, "after the rollback") {
		t.Errorf("the reason does not say that containerd is still not back: %q", r.Reason)
	}
	if now := files(ctx, t, l); now != original {
		t.Errorf("containerd's files are\n%s\nwere\n%s", now, original)
	}
	sh(ctx, t, l, "rm /root/takes-30s; systemctl restart containerd.service") // or it comes back in half a minute
	check(t, l.WaitCRI(ctx))
	wantPod(ctx, t, l, "patient")
}
