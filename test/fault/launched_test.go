package fault_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

const plugin = "/opt/nri/plugins/10-quiesce"

// launchedStatus is what `quiesce status` says when only the plugin directory has the program.
func launchedStatus(ctx context.Context, t *testing.T, l *lab.Lab, words ...string) {
	t.Helper()
	check(t, l.Until(ctx, "status says "+strings.Join(words, " and "), func(ctx context.Context) (bool, error) {
		out, err := l.Exec(ctx, plugin, "status")
		for _, w := range words {
			if err != nil || !strings.Contains(out, w) {
				return false, nil //nolint:nilerr // the daemon may be starting
			}
		}
		return true, nil
	}))
}

// launched lists the PIDs of the plugins that containerd started.
func launched(ctx context.Context, t *testing.T, l *lab.Lab) []string {
	t.Helper()
	return strings.Fields(sh(ctx, t, l, "for p in /proc/[0-9]*; do case $(readlink $p/exe) in "+plugin+"*) tr '\\0' ' ' <$p/cmdline | grep -q apply || echo ${p#/proc/};; esac; done"))
}

// TestLaunched: containerd starts the program from its NRI plugin directory: it observes, gates and applies; it ends with
// containerd; and it gives way to the host service.
func TestLaunched(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "launched", NoHost: true})
	check(t, l.WriteFile("/etc/quiesce/config.toml", []byte("quietPeriod = '1s'\n"), 0o644))
	sh(ctx, t, l, "mkdir -p /opt/nri/plugins; cp /root/quiesce/quiesce "+plugin+"; systemctl restart containerd")
	check(t, l.WaitCRI(ctx))
	launchedStatus(ctx, t, l, "connected for", "started by containerd")
	first := launched(ctx, t, l)
	if len(first) != 1 {
		t.Fatalf("processes: %v", first)
	}
	restarts := runtimeOf(ctx, t, l).Restarts
	p, err := l.StartPod(ctx, lab.HandlerPod("job", "", "sleep 6; exit 3"))
	check(t, err)
	stage(ctx, t, l, "lesser")
	wantPhase(ctx, t, l, "lesser", "live")
	wantPod(ctx, t, l, "lesser")
	check(t, p.Wait(ctx))
	if s, err := p.Status(ctx, "main"); err != nil || s.GetExitCode() != 3 {
		t.Errorf("a container over the restart: %v, %v", s, err)
	}
	if now := runtimeOf(ctx, t, l).Restarts; now != restarts+1 {
		t.Errorf("%d restarts", now-restarts)
	}
	launchedStatus(ctx, t, l, "connected for", "HANDLER", "lesser")
	if now := launched(ctx, t, l); len(now) != 1 || now[0] == first[0] {
		t.Errorf("the plugin's processes are %v, the one of the old containerd was %v", now, first)
	}

	sh(ctx, t, l, "systemctl stop containerd")
	check(t, l.Until(ctx, "the plugin has ended with containerd", func(ctx context.Context) (bool, error) {
		return len(launched(ctx, t, l)) == 0, nil
	}))
	began := time.Now()
	sh(ctx, t, l, "systemctl start containerd")
	check(t, l.WaitCRI(ctx))
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("containerd started in %v: it waited for the plugin", took)
	}
	hostGoesFirst(ctx, t, l)
}

func hostGoesFirst(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	launchedStatus(ctx, t, l, "started by containerd")
	_, err := l.Installer(ctx, "host")
	check(t, err)
	for range 2 { // now, and when containerd has started both anew
		check(t, l.Until(ctx, "the host service decides", func(ctx context.Context) (bool, error) {
			s, err := l.Status(ctx)
			out, serr := l.Exec(ctx, "/opt/quiesce/bin/quiesce", "status")
			return err == nil && serr == nil && s.NRI.Connected && !strings.Contains(out, "started by containerd"), nil
		}))
		wantDaemonNeverEnded(ctx, t, l)
		if now := launched(ctx, t, l); len(now) != 1 {
			t.Errorf("the plugin's processes are %v, want one that is idle", now)
		}
		sh(ctx, t, l, "systemctl restart containerd")
		check(t, l.WaitCRI(ctx))
	}
	before := runtimeOf(ctx, t, l).Restarts
	out, err := l.Installer(ctx, "uninstall", "--handler", "lesser")
	check(t, err)
	id, _, _ := strings.Cut(strings.TrimPrefix(out, "staged "), ":")
	wantEntry(ctx, t, l, id, "removed")
	if now := runtimeOf(ctx, t, l).Restarts; now != before+1 {
		t.Errorf("%d restarts", now-before)
	}
}
