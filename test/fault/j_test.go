package fault_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// commands are all that both programs do.
var commands = [][]string{
	{"run"},
	{"apply"},
	{"apply", "--now", "--yes"},
	{"apply", "--unit"},
	{"apply", "--boot"},
	{"status"},
	{"hold"},
	{"release"},
	{"thaw"},
	{"plan"},
	{"drain"},
	{"resume"},
	{"report"},
}

// TestLoss_j_NobodyButRoot: an unprivileged user gets nothing out of the socket, the inbox and the store, nor into them, nor
// does a command work for them.
func TestLoss_j_NobodyButRoot(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "fault-j", Quiet: 300 * time.Millisecond})
	stage(ctx, t, l, "theirs")
	wantPhase(ctx, t, l, "theirs", "live")
	// What is there, but for what the daemon writes by itself.
	const list = "find /var/lib/quiesce /run/quiesce /opt/quiesce /etc/quiesce /etc/containerd -printf '%p %m %U %s %T@\\n' | " +
		"grep -v -e 'run/quiesce ' -e '/results ' -e '/results/node.json ' | sort"
	sh(ctx, t, l, "cp /root/quiesce/quiesce-installer /tmp/; chmod 755 /tmp/quiesce-installer")
	before := sh(ctx, t, l, list)
	as := func(script string) (string, error) {
		return l.Exec(ctx, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script)
	}
	for _, script := range []string{
		"ls /var/lib/quiesce/inbox", "ls /var/lib/quiesce/inbox/new", "ls /var/lib/quiesce/store", "cat /var/lib/quiesce/store/lock", "ls /run/quiesce",
		"mkdir /var/lib/quiesce/inbox/new/x", "mkdir /var/lib/quiesce/inbox/tmp/x", "touch /var/lib/quiesce/x", "touch /var/lib/quiesce/store/hold.json",
		"touch /var/lib/quiesce/results/x", "rm /var/lib/quiesce/results/*.json", "mv /var/lib/quiesce/results /tmp/", "ln -s /etc/passwd /run/quiesce/ticket.json",
		"touch /opt/quiesce/shims/x", "touch /opt/quiesce/bin/quiesce", "rm /run/quiesce/control.sock", "touch /etc/quiesce/config.toml",
		"printf 'GET /v1/status HTTP/1.0\\r\\n\\r\\n' | socat -t2 - UNIX-CONNECT:/run/quiesce/control.sock",
		"/tmp/quiesce-installer host", "/tmp/quiesce-installer host --remove", "/tmp/quiesce-installer uninstall --handler theirs",
		"/tmp/quiesce-installer install --handler x --runtime-type io.containerd.runc.v2",
	} {
		if out, err := as(script); err == nil {
			t.Errorf("%s works for anybody: %s", script, out)
		}
	}
	for _, c := range commands {
		_, err := as("timeout 20 /opt/quiesce/bin/quiesce " + strings.Join(c, " "))
		exit, ok := errors.AsType[*node.ExitError](err)
		if !ok || exit.Code != 1 && exit.Code != 2 || strings.Contains(exit.Stderr, "panic") {
			t.Errorf("quiesce %v for anybody: %v", c, err)
		}
	}
	if out, err := as("cat /var/lib/quiesce/results/*-theirs-*.json"); err != nil || !strings.Contains(out, "live") {
		t.Errorf("results cannot be read: %s, %v", out, err)
	}
	after := sh(ctx, t, l, list)
	if after != before {
		t.Errorf("changed: %s", diff(before, after))
	}
	if s, err := l.Status(ctx); err != nil || s.Gate.Phase != "idle" || s.LastRestart.Done != 1 {
		t.Errorf("the gate: %+v, %v", s, err)
	}
}
