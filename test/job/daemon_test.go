package job

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// refusedBy checks the exit code and the words of a command that must not work.
func refusedBy(t *testing.T, err error, code int, words string) {
	t.Helper()
	exit, ok := errors.AsType[*node.ExitError](err)
	if !ok || exit.Code != code || !strings.Contains(exit.Stderr, words) {
		t.Errorf("got %v, want exit code %d and %q", err, code, words)
	}
}

func TestDaemon_TheSecondRefuses(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "daemon"})
	_, err := l.Quiesce(ctx, "run")
	refusedBy(t, err, 2, "another quiesce daemon runs")
	if s, err := l.Status(ctx); err != nil || !s.NRI.Connected {
		t.Errorf("the first one: %+v, %v", s, err)
	}
	state, err := l.Exec(ctx, "systemctl", "show", "quiesce.service", "-p", "NRestarts,ActiveState")
	if err != nil || !strings.Contains(state, "ActiveState=active") || !strings.Contains(state, "NRestarts=0") {
		t.Errorf("its unit: %s, %v", state, err)
	}
}

func TestDaemon_Hold(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "hold", Quiet: 500 * time.Millisecond})
	_, err := l.Quiesce(ctx, "hold", "maintenance", "at", "noon")
	check(t, err)
	_, err = l.Installer(ctx, "install", "--handler", "spin-v2", "--runtime-type", "io.containerd.runc.v2")
	check(t, err)
	blocked(ctx, t, l, "held", "maintenance at noon")
	_, err = l.Exec(ctx, "systemctl", "restart", "quiesce.service")
	check(t, err)
	blocked(ctx, t, l, "held", "maintenance at noon")
	_, err = l.Quiesce(ctx, "apply", "--now")
	refusedBy(t, err, 2, "not confirmed")
	wantRestarts(ctx, t, l, 0)
	_, err = l.Quiesce(ctx, "release")
	check(t, err)
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	wantRestarts(ctx, t, l, 1)
}

func TestDaemon_AnInstallerThatHangs(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "stuck", Quiet: 500 * time.Millisecond, Config: "installerTimeout = '2s'", Shims: []string{"spin-v2"}})
	start(ctx, t, l, lab.InstallPod("hangs", "spin-v2", 0, 3600))
	check(t, l.Until(ctx, "the installer is called stuck", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && len(s.Installers) == 1 && s.Installers[0].Stuck && len(s.Gate.Blockers) > 0 && s.Gate.Blockers[0].Stuck, err
	}))
	table, err := l.Quiesce(ctx, "status")
	if err != nil || !strings.Contains(table, "STUCK") || !strings.Contains(table, "kube-system/hangs") {
		t.Errorf("status says %s, %v", table, err)
	}
	metrics, err := l.Exec(ctx, "sh", "-c", `printf 'GET /metrics HTTP/1.0\r\n\r\n' | socat -t5 - UNIX-CONNECT:/run/quiesce/control.sock`)
	if err != nil || !strings.Contains(metrics, "quiesce_installers_stuck 1") {
		t.Errorf("metrics say %s, %v", metrics, err)
	}
	log, err := l.Exec(ctx, "journalctl", "-o", "cat", "-u", "quiesce.service")
	if err != nil || !strings.Contains(log, "kept closed by a stuck installer") {
		t.Errorf("the log lacks it: %v", err)
	}
	wantRestarts(ctx, t, l, 0)
	out, err := l.Quiesce(ctx, "apply", "--now", "--yes")
	if err != nil || !strings.Contains(out, "live") {
		t.Errorf("apply --now: %s, %v", out, err)
	}
	wantRestarts(ctx, t, l, 1)
}

func TestDaemon_NobodyButRoot(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "nobody"})
	as := func(argv ...string) error {
		_, err := l.Exec(ctx, append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, argv...)...)
		return err
	}
	refusedBy(t, as("/opt/quiesce/bin/quiesce", "status"), 1, "is root's")
	refusedBy(t, as("/opt/quiesce/bin/quiesce-installer", "install", "--handler", "x", "--runtime-type", "io.containerd.runc.v2"), 1, "permission denied")
	for _, dir := range []string{"inbox", "inbox/new", "store", "store/cur"} {
		if err := as("ls", "/var/lib/quiesce/"+dir); err == nil {
			t.Errorf("%s can be read by anybody", dir)
		}
	}
	check(t, as("ls", "/var/lib/quiesce/results"))
	// Not even where the directory lets everybody in: the peer's credentials are checked.
	_, err := l.Exec(ctx, "chmod", "0777", "/run/quiesce", "/run/quiesce/control.sock")
	check(t, err)
	if err := as("/opt/quiesce/bin/quiesce", "hold"); err == nil {
		t.Error("anybody can hold the gate")
	}
	if s, err := l.Status(ctx); err != nil || s.Gate.Phase != "idle" {
		t.Errorf("the gate is %q, %v", s.Gate.Phase, err)
	}
}
