package job

import (
	"context"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
	"quiesce/test/node"
)

const config = "/etc/containerd/config.toml"

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func runtimeOf(ctx context.Context, t *testing.T, l *lab.Lab) lab.Runtime {
	t.Helper()
	r, err := l.Runtime(ctx)
	check(t, err)
	return r
}

func wantRestarts(ctx context.Context, t *testing.T, l *lab.Lab, want int) {
	t.Helper()
	if r := runtimeOf(ctx, t, l); r.Restarts != want {
		t.Errorf("containerd was restarted %d times, want %d", r.Restarts, want)
	}
}

// wantExit checks how the container called main ended.
func wantExit(ctx context.Context, t *testing.T, p *node.RunningPod, name string, code int32) *runtimeapi.ContainerStatus {
	t.Helper()
	s, err := p.Status(ctx, name)
	check(t, err)
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	if s.GetExitCode() != code || s.GetReason() != reason {
		log, _ := p.Log(name)
		t.Errorf("%s of %s ended %d %s, want %d %s; its log:\n%s", name, p.Pod.Name, s.GetExitCode(), s.GetReason(), code, reason, log)
	}
	return s
}

func start(ctx context.Context, t *testing.T, l *lab.Lab, pod node.Pod) *node.RunningPod {
	t.Helper()
	p, err := l.StartPod(ctx, pod)
	check(t, err)
	return p
}

// blocked waits until status names a reason, with somebody in particular if who is not empty.
func blocked(ctx context.Context, t *testing.T, l *lab.Lab, reason, who string) {
	t.Helper()
	check(t, l.Until(ctx, "the gate says "+reason+" "+who, func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // the daemon may be starting
		}
		for _, b := range s.Gate.Blockers {
			if b.Reason == reason && strings.Contains(strings.Join(b.Who, " "), who) {
				return true, nil
			}
		}
		return false, nil
	}))
}

// refused makes sure that a pod of a handler does not start.
func refused(ctx context.Context, t *testing.T, l *lab.Lab, handler string) {
	t.Helper()
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if p, err := l.BeginPod(short, lab.HandlerPod("too-early", handler, "exit 0")); err == nil {
		t.Errorf("a pod of %s started as %s", handler, p.SandboxID)
	}
}

func TestJob_a_OneInstaller(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-a", Shims: []string{"spin-v2"}})
	before := runtimeOf(ctx, t, l)
	p := start(ctx, t, l, lab.InstallPod("node-spin-v2-install", "spin-v2", 0, 3))
	blocked(ctx, t, l, "installers in flight", "node-spin-v2-install")
	refused(ctx, t, l, "spin-v2")
	if now := runtimeOf(ctx, t, l); now.PID != before.PID {
		t.Errorf("containerd's PID went from %d to %d with the installer in flight", before.PID, now.PID)
	}
	check(t, p.Wait(ctx))
	stopped := time.Now()
	wantExit(ctx, t, p, "main", 0)
	_, err := l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	starts, err := l.Starts(ctx)
	check(t, err)
	if len(starts) != 2 || starts[1].Before(stopped.Add(-100*time.Millisecond)) {
		t.Errorf("containerd was started at %v, the installer's sandbox stopped at %v", starts, stopped)
	}
	wantExit(ctx, t, l.Must(ctx, t, lab.HandlerPod("app", "spin-v2", "exit 3")), "main", 3)
}

// TestJob_a_ReadersSeeTheTruth: results/node.json follows the gate and the runtime, though nobody asks the daemon for its status.
func TestJob_a_ReadersSeeTheTruth(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-readers", Shims: []string{"spin-v2"}})
	before := runtimeOf(ctx, t, l)
	see := func(what string, right func(lab.Shown) bool) {
		t.Helper()
		check(t, l.Until(ctx, "readers see "+what, func(context.Context) (bool, error) {
			s, err := l.Shown()
			return err == nil && right(s), nil
		}))
	}
	see("the gate idle", func(s lab.Shown) bool {
		return s.PID == before.PID && s.Gate.Phase == "idle" && len(s.Gate.Blockers) == 0
	})
	p := start(ctx, t, l, lab.InstallPod("node-spin-v2-install", "spin-v2", 0, 5))
	see("who is in flight", func(s lab.Shown) bool {
		return s.Gate.Phase == "collecting" && strings.Contains(strings.Join(s.Gate.Blockers, " "), "node-spin-v2-install")
	})
	out, err := l.Exec(ctx, "/opt/quiesce/bin/quiesce-installer", "status")
	if err != nil || !strings.Contains(out, "GATE collecting since") {
		t.Errorf("the installer's status: %v\n%s", err, out)
	}
	check(t, p.Wait(ctx))
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	after := runtimeOf(ctx, t, l)
	see("the new containerd", func(s lab.Shown) bool { return s.PID == after.PID && s.Gate.Phase == "idle" })
}

func TestJob_b_ThreeOverlapAndAFourthComesInTheQuietPeriod(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-b", Quiet: 8 * time.Second, Shims: []string{"spin-v2", "wasmtime-v1", "slight-v1", "lunatic-v1"}})
	first := start(ctx, t, l, lab.InstallPod("one", "spin-v2", 0, 0))
	second := start(ctx, t, l, lab.InstallPod("two", "wasmtime-v1", 1, 0))
	third := start(ctx, t, l, lab.InstallPod("three", "slight-v1", 10, 0))
	for _, p := range []*node.RunningPod{first, second, third} {
		check(t, p.Wait(ctx))
		wantExit(ctx, t, p, "main", 0)
	}
	blocked(ctx, t, l, "quiet period", "")
	fourth := start(ctx, t, l, lab.InstallPod("four", "lunatic-v1", 9, 0)) // longer than the quiet period
	check(t, fourth.Wait(ctx))
	stopped := time.Now()
	wantExit(ctx, t, fourth, "main", 0)
	for _, h := range []string{"spin-v2", "wasmtime-v1", "slight-v1", "lunatic-v1"} {
		_, err := l.WaitPhase(ctx, h, "live")
		check(t, err)
	}
	starts, err := l.Starts(ctx)
	check(t, err)
	if len(starts) != 2 || starts[1].Before(stopped.Add(-100*time.Millisecond)) {
		t.Errorf("containerd was started at %v, want one restart after %v", starts, stopped)
	}
}

func TestJob_c_TheSameAgain(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-c", Shims: []string{"spin-v2"}})
	l.Must(ctx, t, lab.InstallPod("one", "spin-v2", 0, 0))
	_, err := l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	files := func() string {
		out, err := l.Exec(ctx, "sh", "-c", "find /etc/containerd /opt/quiesce /var/lib/quiesce/store/cur -type f | sort | xargs sha256sum; find /etc/containerd /opt/quiesce -type f -printf '%p %T@ %i\\n' | sort")
		check(t, err)
		return out
	}
	before := files()
	p := l.Must(ctx, t, lab.InstallPod("two", "spin-v2", 0, 0))
	wantExit(ctx, t, p, "main", 0)
	if log, err := p.Log("main"); err != nil || !strings.Contains(log, "already installed") {
		t.Errorf("the installer says %q, %v", log, err)
	}
	// An installer that stages all the same, since it cannot see the hint, costs no restart either.
	_, err = l.Exec(ctx, "rm", lab.Inbox+"/live.json")
	check(t, err)
	last, err := l.Results(ctx)
	check(t, err)
	p = l.Must(ctx, t, lab.InstallPod("three", "spin-v2", 0, 0))
	wantExit(ctx, t, p, "main", 0)
	check(t, l.Until(ctx, "the third installer's entry is live", func(ctx context.Context) (bool, error) {
		rs, err := l.Results(ctx)
		return rs["spin-v2"].ID != last["spin-v2"].ID && rs["spin-v2"].Phase == "live", err
	}))
	wantRestarts(ctx, t, l, 1)
	config := func(s string) string { return strings.Join(linesWith(s, "/etc/containerd", "/opt/quiesce"), "\n") }
	if after := files(); config(after) != config(before) {
		t.Errorf("files changed:\n%s\nwas:\n%s", after, before)
	}
}

func linesWith(s string, parts ...string) (out []string) {
	for line := range strings.Lines(s) {
		for _, p := range parts {
			if strings.Contains(line, p) {
				out = append(out, line)
			}
		}
	}
	return out
}

func TestJob_d_UninstallWaitsForThePods(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-d", Shims: []string{"spin-v2"}})
	original := l.ReadConfig(t)
	l.Must(ctx, t, lab.InstallPod("install", "spin-v2", 0, 0))
	_, err := l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	app := start(ctx, t, l, lab.HandlerPod("app", "spin-v2", "trap 'exit 4' TERM; while :; do sleep 1; done"))
	wantExit(ctx, t, l.Must(ctx, t, lab.UninstallPod("uninstall", "spin-v2")), "main", 0)
	blocked(ctx, t, l, "pods use the handler", "default/app")
	more := start(ctx, t, l, lab.HandlerPod("more", "spin-v2", "sleep 4")) // a plain uninstall refuses nobody
	check(t, app.Stop(ctx))
	wantExit(ctx, t, app, "main", 4)
	blocked(ctx, t, l, "pods use the handler", "default/more")
	if out, err := l.Exec(ctx, "sh", "-c", "ls /opt/quiesce/shims/*/containerd-shim-spin-v2"); err != nil {
		t.Errorf("the shim is gone while a pod uses it: %v %s", err, out)
	}
	wantRestarts(ctx, t, l, 1)
	check(t, more.Wait(ctx))
	wantExit(ctx, t, more, "main", 0)
	_, err = l.WaitPhase(ctx, "spin-v2", "removed")
	check(t, err)
	wantRestarts(ctx, t, l, 2)
	check(t, l.Until(ctx, "the shim is gone", func(ctx context.Context) (bool, error) {
		_, err := l.Exec(ctx, "sh", "-c", "ls /opt/quiesce/shims/*/containerd-shim-spin-v2")
		return err != nil, nil
	}))
	if now := l.ReadConfig(t); now != original {
		t.Errorf("config is not the original one:\n%s", now)
	}
	wantExit(ctx, t, l.Must(ctx, t, lab.UninstallPod("again", "spin-v2")), "main", 0)
	wantRestarts(ctx, t, l, 2)
	shimAfterRestart(ctx, t, l)
}

// shimAfterRestart checks in apply's log that the shim's file went after the restart, never before it.
func shimAfterRestart(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	out, err := l.Exec(ctx, "journalctl", "-o", "cat", "-u", "quiesce-apply.service")
	check(t, err)
	removed, restarted := strings.LastIndex(out, "shim removed"), strings.LastIndex(out, "the runtime was restarted")
	if removed < 0 || restarted < 0 || removed < restarted {
		t.Errorf("apply's log has the shim's removal at %d and the restart at %d", removed, restarted)
	}
}

func TestJob_e_RolledBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		harm func(context.Context, *testing.T, *lab.Lab)
		args []string
		want string
	}{
		// A base spec that is not there: containerd loads the file, but CRI does not come up.
		"CRI does not answer": {nil, []string{"--set", "base_runtime_spec=/nowhere/spec.json"}, "not"},
		// The node's containerd is told to use another file than the one quiesce was told to edit.
		"the handler does not show up": {func(ctx context.Context, t *testing.T, l *lab.Lab) {
			_, err := l.Exec(ctx, "cp", config, "/etc/containerd/other.toml")
			check(t, err)
			check(t, l.WriteFile("/etc/quiesce/config.toml", []byte("quietPeriod = '1s'\nverifyTimeout = '20s'\ncontainerdConfig = '/etc/containerd/other.toml'\n"), 0o644))
		}, nil, "does not have handler"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, l := lab.New(t, lab.Options{Name: "job-e", Quiet: time.Second, Config: "verifyTimeout = '8s'", Shims: []string{"spin-v2"}})
			if tc.harm != nil {
				tc.harm(ctx, t, l)
			}
			original := l.ReadConfig(t)
			p := l.Must(ctx, t, lab.InstallPod("install", "spin-v2", 0, 0, tc.args...))
			wantExit(ctx, t, p, "main", 0)
			r, err := l.WaitPhase(ctx, "spin-v2", "rejected")
			check(t, err)
			if !strings.Contains(r.Reason, tc.want) || !strings.Contains(r.Reason, "rolled back") {
				t.Errorf("the reason is %q", r.Reason)
			}
			if now := l.ReadConfig(t); now != original {
				t.Errorf("config is not the old one:\n%s", now)
			}
			check(t, l.WaitCRI(ctx))
			if _, err := l.Exec(ctx, "ls", "/var/lib/quiesce/store/bad/"+r.ID); err != nil {
				t.Errorf("the entry is not in bad: %v", err)
			}
			wantExit(ctx, t, l.Must(ctx, t, lab.HandlerPod("app", "", "exit 5")), "main", 5)
			status := node.Shell("/quiesce-installer status --wait --handler spin-v2")
			status.Image = lab.InstallerImage
			status.Mounts = []node.Mount{{Host: lab.Results, Container: lab.Results, ReadOnly: true}}
			s := l.Must(ctx, t, node.Pod{Namespace: "kube-system", Name: "status", Labels: node.JobLabels("status"), Containers: []node.Container{status}})
			wantExit(ctx, t, s, "main", 1)
			if log, err := s.Log("main"); err != nil || !strings.Contains(log, "rolled back") {
				t.Errorf("status --wait says %q, %v", log, err)
			}
		})
	}
}

func TestJob_f_TheDaemonIsKilledWithInstallersInFlight(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-f", Quiet: time.Second, Shims: []string{"spin-v2", "wasmtime-v1"}})
	l.Must(ctx, t, lab.InstallPod("one", "spin-v2", 0, 0, "--set", "snapshotter=overlayfs"))
	p := start(ctx, t, l, lab.InstallPod("two", "wasmtime-v1", 8, 0))
	before := runtimeOf(ctx, t, l)
	for range 3 {
		_, err := l.Exec(ctx, "systemctl", "kill", "-s", "KILL", "quiesce.service")
		check(t, err)
		blocked(ctx, t, l, "installers in flight", "two")
	}
	check(t, p.Wait(ctx))
	stopped := time.Now()
	wantExit(ctx, t, p, "main", 0)
	for _, h := range []string{"spin-v2", "wasmtime-v1"} {
		_, err := l.WaitPhase(ctx, h, "live")
		check(t, err)
	}
	starts, err := l.Starts(ctx)
	check(t, err)
	for _, s := range starts[before.Restarts+1:] {
		if s.Before(stopped.Add(-100 * time.Millisecond)) {
			t.Errorf("restarted at %v, before the last installer was gone at %v", s, stopped)
		}
	}
}

func TestJob_g_ReportedJobs(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-g", Quiet: time.Second, Shims: []string{"spin-v2"}})
	emptyDir(ctx, t, l, "theirs", "ours", "gone", "gone-again")
	// As reported, knowing nothing of quiesce: the gate waits for it from its first container on.
	_, err := l.Installer(ctx, "uninstall", "--handler", "never-there")
	check(t, err)
	theirs := make(chan error, 1)
	go func() {
		p, err := l.StartPod(ctx, lab.ReportedPod("theirs", node.BusyboxImage, "install", "spin-v2", "sleep 3", 4))
		if err == nil {
			err = p.Wait(ctx)
		}
		theirs <- err
	}()
	blocked(ctx, t, l, "installers in flight", "default/theirs (a Job's pod whose containers are not all known yet)")
	blocked(ctx, t, l, "installers in flight", "default/theirs (container provisioner can write to /)")
	check(t, <-theirs)
	// The same with only the image changed.
	ours := l.Must(ctx, t, lab.ReportedPod("ours", lab.InstallerImage, "install", "spin-v2", "", 0))
	wantExit(ctx, t, ours, "provisioner", 0)
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	wantExit(ctx, t, l.Must(ctx, t, lab.HandlerPod("app", "spin-v2", "exit 6")), "main", 6)
	for _, job := range []string{"gone", "gone-again"} {
		p := l.Must(ctx, t, lab.ReportedPod(job, lab.InstallerImage, "uninstall", "spin-v2", "", 0))
		wantExit(ctx, t, p, "provisioner", 0)
	}
	_, err = l.WaitPhase(ctx, "spin-v2", "removed")
	check(t, err)
	wantRestarts(ctx, t, l, 2)
}

// emptyDir makes the directories that a kubelet would make.
func emptyDir(ctx context.Context, t *testing.T, l *lab.Lab, jobs ...string) {
	t.Helper()
	for _, j := range jobs {
		_, err := l.Exec(ctx, "mkdir", "-p", "/var/lib/kubelet/pods/"+j+"/volumes/kubernetes.io~empty-dir/shim-download-assets")
		check(t, err)
	}
}

func TestJob_h_WhoDoesNotHoldTheGate(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-h", Quiet: time.Second, Config: "undecidedTimeout = '3s'", Shims: []string{"spin-v2"}})
	forever := "while :; do sleep 1; done"
	labelled := node.Pod{Namespace: "default", Name: "labelled", Labels: map[string]string{"quiesce.internal/installer": "true"}, Containers: []node.Container{node.Shell(forever)}}
	start(ctx, t, l, labelled)
	scanner := node.Shell(forever)
	scanner.Mounts = []node.Mount{{Host: "/", Container: "/host", ReadOnly: true}}
	start(ctx, t, l, node.Pod{Namespace: "default", Name: "scanner", Labels: node.JobLabels("scan"), Containers: []node.Container{scanner}})
	writer := node.Shell(forever)
	writer.Mounts = []node.Mount{{Host: "/", Container: "/host"}}
	start(ctx, t, l, node.Pod{Namespace: "default", Name: "agent", Containers: []node.Container{writer}}) // no Job's
	l.Must(ctx, t, lab.InstallPod("install", "spin-v2", 0, 0))
	_, err := l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	s, err := l.Status(ctx)
	check(t, err)
	if len(s.Installers) > 0 {
		t.Errorf("still in flight: %+v", s.Installers)
	}
}
