package fault_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// span is how long a storm lasts: in `make chaos` the whole time.
func span(ctx context.Context, t *testing.T, short, whole time.Duration) (context.Context, time.Duration) {
	t.Helper()
	if os.Getenv("CHAOS") != "all" {
		return ctx, short
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), whole+5*time.Minute, errors.New("the storm does not end"))
	t.Cleanup(cancel)
	return ctx, whole
}

// descriptors are those of the daemon, and its threads.
func descriptors(ctx context.Context, t *testing.T, l *lab.Lab) (files, threads int) {
	t.Helper()
	out := sh(ctx, t, l, "p=/proc/$(systemctl show -p MainPID --value quiesce.service); ls $p/fd | wc -l; ls $p/task | wc -l")
	if _, err := fmt.Sscan(out, &files, &threads); err != nil {
		t.Fatal(err)
	}
	return files, threads
}

// TestChaos_ContainerdRestartsEverySecond: the daemon stays, registers anew each time, loses nothing and leaks nothing.
func TestChaos_ContainerdRestartsEverySecond(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "restarts", Quiet: 300 * time.Millisecond})
	ctx, lasts := span(ctx, t, 20*time.Second, 5*time.Minute)
	sh(ctx, t, l, "mkdir -p /run/systemd/system/containerd.service.d; printf '[Unit]\\nStartLimitIntervalSec=0\\n' >/run/systemd/system/containerd.service.d/limit.conf; systemctl daemon-reload")
	before, threads := descriptors(ctx, t, l)
	stage(ctx, t, l, "during")
	restarts := 0
	for began := time.Now(); time.Since(began) < lasts; restarts++ {
		sh(ctx, t, l, "systemctl restart containerd.service; sleep 1")
	}
	wantPhase(ctx, t, l, "during", "live")
	check(t, l.Until(ctx, "NRI is connected again", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && s.NRI.Connected && s.Gate.Phase == "idle", nil
	}))
	after, now := descriptors(ctx, t, l)
	t.Logf("%d restarts; %d file descriptors, %d before; %d threads, %d before", restarts, after, before, now, threads)
	if after > before+8 || now > threads+20 {
		t.Error("something leaks")
	}
	wantDaemonNeverEnded(ctx, t, l)
	stage(ctx, t, l, "after")
	wantPhase(ctx, t, l, "after", "live")
	wantPod(ctx, t, l, "during")
}

// TestChaos_SlowNeighbour: another NRI plugin takes its time in every callback. The gate waits for what is being made meanwhile.
func TestChaos_SlowNeighbour(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{
		Name: "neighbour", Quiet: 300 * time.Millisecond,
		Node: node.Config{Programs: map[string]string{"./test/fault/neighbour": "/root/neighbour"}},
	})
	sh(ctx, t, l, "systemd-run --quiet --unit=neighbour --property=Restart=always --property=RestartSec=100ms --property=StartLimitIntervalSec=0 /root/neighbour 1500ms")
	for i := range 3 {
		h := fmt.Sprintf("beside-%d", i)
		var pods sync.WaitGroup
		for k := range 3 {
			pods.Go(func() {
				p, err := l.RunPod(ctx, lab.HandlerPod(fmt.Sprintf("slow-%d-%d", i, k), "", "exit 4"))
				if err != nil {
					t.Errorf("a pod: %v", err)
					return
				}
				if s, err := p.Status(ctx, "main"); err != nil || s.GetExitCode() != 4 {
					t.Errorf("a pod ended %d %s, want 4: %v", s.GetExitCode(), s.GetReason(), err)
				}
			})
		}
		stage(ctx, t, l, h)
		pods.Wait()
		wantPhase(ctx, t, l, h, "live")
	}
	wantDaemonNeverEnded(ctx, t, l)
	if s, err := l.Status(ctx); err != nil || s.LastRestart.Broken != 0 {
		t.Errorf("%d restarts failed, %v", s.LastRestart.Broken, err)
	}
}

const quiesce = "/opt/quiesce/bin/quiesce"

// storm are commands that are given again and again.
func storm() [][]string {
	const installer = "/root/quiesce/quiesce-installer"
	return [][]string{
		{quiesce, "hold", "a storm"},
		{quiesce, "release"},
		{quiesce, "release"},
		{quiesce, "status"},
		{quiesce, "run"},
		{quiesce, "run"},
		{quiesce, "apply", "--now", "--yes"},
		{quiesce, "apply", "--now", "--yes"},
		{quiesce, "drain", "--pod", "default/victim", "--yes", "--deadline", "15s"},
		{quiesce, "drain", "--handler", "many-0", "--yes", "--deadline", "15s"},
		{quiesce, "resume"},
		{quiesce, "report"},
		{quiesce, "plan", "--all"},
		{installer, "install", "--handler", "many-0", "--runtime-type", "io.containerd.runc.v2"},
		{installer, "uninstall", "--handler", "many-0"},
		{installer, "install", "--handler", "many-1", "--runtime-type", "io.containerd.runc.v2"},
		{installer, "uninstall", "--handler", "many-1"},
		{installer, "install", "--handler", "many-2", "--runtime-type", "io.containerd.runc.v2", "--option", "Root=/run/r"},
		{"systemctl", "kill", "--signal=TERM", "quiesce-apply.service"},
	}
}

// victims are pods, one after the other, that others drain.
func victims(ctx context.Context, t *testing.T, l *lab.Lab, end time.Time) {
	t.Helper()
	for i := 0; time.Now().Before(end); i++ {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // its sandbox may be drained while it is being made
		p, err := l.StartPod(ctx, node.Pod{Name: "victim", Grace: time.Second, Containers: []node.Container{node.Shell("trap 'exit 0' TERM; while :; do sleep 0.1; done")}})
		if err == nil {
			err = p.Stop(ctx)
		}
		if err == nil {
			err = p.Remove(ctx)
		}
		cancel()
		if err != nil && !strings.Contains(err.Error(), "not found") {
			t.Logf("victim %d: %v", i, err) // it is drained by others
		}
	}
}

// TestChaos_Storm: everything at once, by many. Whatever a command says, it says so in order, and the end is one of a serial order.
func TestChaos_Storm(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "storm", Quiet: 200 * time.Millisecond, Config: "undecidedTimeout = '1s'"})
	ctx, lasts := span(ctx, t, 15*time.Second, 2*time.Minute)
	end := time.Now().Add(lasts)
	var all sync.WaitGroup
	for _, argv := range storm() {
		all.Go(func() {
			for time.Now().Before(end) {
				_, err := l.Exec(ctx, argv...)
				exit, ok := errors.AsType[*node.ExitError](err)
				if err != nil && (!ok || exit.Code > 2 && argv[0] != "systemctl" || strings.Contains(exit.Stderr, "panic") || strings.Contains(exit.Stderr, "DATA RACE")) {
					t.Errorf("%v: %v", argv, err)
					return
				}
			}
		})
	}
	all.Go(func() { victims(ctx, t, l, end) })
	all.Wait()
	sh(ctx, t, l, quiesce+" resume; "+quiesce+" release")
	check(t, l.Until(ctx, "nothing is pending", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && len(s.Pending) == 0 && s.Gate.Phase == "idle", nil
	}))
	agree(ctx, t, l)
	wantDaemonNeverEnded(ctx, t, l)
	wantPod(ctx, t, l, "")
	if left := sh(ctx, t, l, "ls /var/lib/quiesce/store/act /var/lib/quiesce/inbox/new; find /sys/fs/cgroup -name freezer.state -exec grep -lE 'FROZEN|FREEZING' {} + || true"); strings.Contains(left, "many") || strings.Contains(left, "cgroup") {
		t.Errorf("left: %s", left)
	}
}

// TestChaos_HostileWords: what pods say of themselves neither moves a terminal's cursor nor stops the daemon, and forged
// signals drain nobody.
func TestChaos_HostileWords(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "words", Quiet: 300 * time.Millisecond})
	const evil = "x\x1b[2J\x1b]0;owned\x07\u009b31m\u202e\r\n"
	pod := node.Pod{
		Name: "evil", Namespace: "default", Labels: map[string]string{"job-name": evil, "app": evil},
		Annotations: map[string]string{
			"quiesce.internal/tier": evil, "quiesce.internal/before": evil, "quiesce.internal/grace": evil, "huge": strings.Repeat("A", 1<<20), evil: evil,
		},
		Containers: []node.Container{node.Shell("trap 'exit 0' TERM; while :; do sleep 0.1; done")},
	}
	p := start(ctx, t, l, pod)
	stage(ctx, t, l, "held-back")
	for _, verb := range [][]string{{"status"}, {"plan", "--all"}, {"drain", "--pod", "default/evil", "--yes", "--deadline", "20s"}, {"report"}, {"status"}, {"resume"}} {
		out, err := l.Quiesce(ctx, verb...)
		if exit, ok := errors.AsType[*node.ExitError](err); ok {
			out += exit.Stderr
		}
		for _, r := range out {
			if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e') {
				t.Errorf("quiesce %v prints %q: %q", verb, r, out)
				break
			}
		}
	}
	check(t, p.Remove(ctx))
	if who := sh(ctx, t, l, "busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager ListInhibitors"); !strings.Contains(who, `"quiesce"`) {
		t.Errorf("nobody listens to logind: %s", who)
	}
	for _, signal := range []string{
		"/org/freedesktop/login1 org.freedesktop.login1.Manager.PrepareForShutdown boolean:true",
		"/org/freedesktop/systemd1 org.freedesktop.systemd1.Manager.JobRemoved uint32:1 objpath:/org/freedesktop/systemd1/job/1 string:containerd.service string:done",
	} {
		send := "dbus-send --system --type=signal %s " + signal
		each := "for name in $(busctl list --unique --no-legend | cut -d' ' -f1); do " + fmt.Sprintf(send, "--dest=$name") + "; done" // no match rule keeps one off
		sh(ctx, t, l, fmt.Sprintf(send, "")+"; "+each)
		_, _ = l.Exec(ctx, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", fmt.Sprintf(send, "")+"; "+each) // the bus may refuse it
	}
	wantPhase(ctx, t, l, "held-back", "live")
	wantPod(ctx, t, l, "held-back")
	if b, err := l.ReadFile("/var/lib/quiesce/drain/state.json"); err == nil && strings.Contains(string(b), `"trigger":"shutdown"`) {
		t.Errorf("a forged signal began a drain: %.300s", b)
	}
	wantDaemonNeverEnded(ctx, t, l)
}

func start(ctx context.Context, t *testing.T, l *lab.Lab, pod node.Pod) *node.RunningPod {
	t.Helper()
	p, err := l.StartPod(ctx, pod)
	check(t, err)
	return p
}
