package crash_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

const harmConf = "/etc/systemd/system/containerd.service.d/harm.conf"

// newLab boots a node on which containerd may fail.
func newLab(t *testing.T, name, config string) (context.Context, *lab.Lab) {
	t.Helper()
	return lab.New(t, lab.Options{
		Name: name, Quiet: 200 * time.Millisecond, Config: config,
		Node: node.Config{AllowFailed: []string{"containerd.service", "quiesce-drain.service", "quiesce-apply.service"}},
	})
}

// harm makes containerd's start do something first.
func harm(t *testing.T, l *lab.Lab, command string) {
	t.Helper()
	check(t, l.WriteFile(harmConf, []byte("[Service]\nExecStartPre=/bin/sh -c '"+command+"'\n"), 0o644))
}

// noStart is a containerd that cannot start at all with a handler.
func noStart(handler string) string {
	return "! test -e /etc/containerd/conf.d/quiesce-" + handler + ".toml"
}

// offline stages on the file system of a node that is off.
func offline(ctx context.Context, t *testing.T, l *lab.Lab, args ...string) {
	t.Helper()
	argv := append(args, "--inbox", l.Path(lab.Inbox))
	out, err := exec.CommandContext(ctx, l.Path("/root/quiesce/quiesce-installer"), argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("stage offline: %v\n%s", err, out)
	}
}

func installOffline(ctx context.Context, t *testing.T, l *lab.Lab, handler string, args ...string) {
	t.Helper()
	offline(ctx, t, l, append([]string{"install", "--handler", handler, "--runtime-type", "io.containerd.runc.v2"}, args...)...)
}

// wantEnd checks what became of a handler's entry.
func wantEnd(ctx context.Context, t *testing.T, l *lab.Lab, handler, phase, reason string) {
	t.Helper()
	r, err := l.WaitPhase(ctx, handler, phase)
	check(t, err)
	if !strings.Contains(r.Reason, reason) {
		t.Errorf("%s is %s because %q, want %q", handler, phase, r.Reason, reason)
	}
	_, err = l.Exec(ctx, "test", "-e", "/etc/containerd/conf.d/quiesce-"+handler+".toml")
	if (err == nil) != (phase == "live") {
		t.Errorf("%s is %s, its file: %v", handler, phase, err)
	}
}

func wantPod(ctx context.Context, t *testing.T, l *lab.Lab, handler string) {
	t.Helper()
	p, err := l.RunPod(ctx, lab.HandlerPod("", handler, "exit 3"))
	check(t, err)
	if s, err := p.Status(ctx, "main"); err != nil || s.GetExitCode() != 3 {
		t.Errorf("a pod of %q: exit %d, %v", handler, s.GetExitCode(), err)
	}
}

// TestBoot_CrashLoop: containerd cannot start with one of two handlers that were staged while the node was off.
func TestBoot_CrashLoop(t *testing.T) {
	t.Parallel()
	ctx, l := newLab(t, "boot-loop", "verifyTimeout = '6s'")
	check(t, l.Shutdown(ctx))
	harm(t, l, noStart("bad"))
	installOffline(ctx, t, l, "good")
	installOffline(ctx, t, l, "bad")
	check(t, l.Start(ctx))
	wantEnd(ctx, t, l, "good", "live", "")
	wantEnd(ctx, t, l, "bad", "rejected", "rolled back")
	wantPod(ctx, t, l, "good")
}

// TestBoot_CutInACrashLoop cuts the power while containerd fails again and again, and then once more.
func TestBoot_CutInACrashLoop(t *testing.T) {
	t.Parallel()
	ctx, l := newLab(t, "boot-cut", "verifyTimeout = '6s'")
	check(t, l.Shutdown(ctx))
	harm(t, l, noStart("bad"))
	installOffline(ctx, t, l, "bad")
	for range 2 {
		up := make(chan error, 1)
		starting, cancel := context.WithCancel(ctx)
		go func() { up <- l.Start(starting) }()
		check(t, l.Until(ctx, "containerd has failed twice", func(ctx context.Context) (bool, error) {
			out, err := l.Exec(ctx, "systemctl", "show", "--value", "-p", "NRestarts", "containerd.service")
			return err == nil && strings.TrimSpace(out) >= "2", nil
		}))
		check(t, l.PowerCut(ctx))
		cancel()
		if err := <-up; err == nil {
			t.Error("containerd came up")
		}
	}
	check(t, l.Start(ctx))
	wantEnd(ctx, t, l, "bad", "rejected", "")
	wantPod(ctx, t, l, "")
}

// TestBoot_NoCRI: containerd starts with what was staged, but without CRI.
func TestBoot_NoCRI(t *testing.T) {
	t.Parallel()
	ctx, l := newLab(t, "boot-nocri", "verifyTimeout = '6s'")
	check(t, l.Shutdown(ctx))
	installOffline(ctx, t, l, "bad", "--set", "base_runtime_spec=/nowhere/spec.json")
	installOffline(ctx, t, l, "good")
	check(t, l.Start(ctx))
	wantEnd(ctx, t, l, "good", "live", "")
	wantEnd(ctx, t, l, "bad", "rejected", "rolled back")
	wantPod(ctx, t, l, "good")
}

// TestBoot_SlowStart: a containerd that takes its time is waited for, and a removal waits for it too.
func TestBoot_SlowStart(t *testing.T) {
	t.Parallel()
	ctx, l := newLab(t, "boot-slow", "verifyTimeout = '40s'")
	_, err := l.Installer(ctx, "install", "--handler", "old", "--runtime-type", "io.containerd.runc.v2")
	check(t, err)
	wantEnd(ctx, t, l, "old", "live", "")
	check(t, l.Shutdown(ctx))
	harm(t, l, "sleep 15")
	installOffline(ctx, t, l, "new")
	offline(ctx, t, l, "uninstall", "--handler", "old")
	up := make(chan error, 1)
	go func() { up <- l.Start(ctx) }()
	check(t, l.Until(ctx, "the install is applied", func(context.Context) (bool, error) {
		_, err := l.ReadFile("/etc/containerd/conf.d/quiesce-new.toml")
		return err == nil && l.Running(), nil
	}))
	for began := time.Now(); time.Since(began) < 5*time.Second; tick(ctx) {
		if _, err := l.ReadFile("/etc/containerd/conf.d/quiesce-old.toml"); err != nil {
			t.Fatalf("the removal did not wait for containerd: %v", err)
		}
	}
	check(t, <-up)
	wantEnd(ctx, t, l, "new", "live", "")
	wantEnd(ctx, t, l, "old", "removed", "")
	r, err := l.Runtime(ctx)
	if err != nil || r.Restarts != 1 {
		t.Errorf("%d restarts, %v; want the removal's", r.Restarts, err)
	}
}

func tick(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

// TestLoss_c_OneBadOneOfFive: the four others live.
func TestLoss_c_OneBadOneOfFive(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		harm string
		args []string
	}{
		"no CRI":   {"", []string{"--set", "base_runtime_spec=/nowhere/spec.json"}},
		"no start": {noStart("h3"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, l := newLab(t, "loss-c", "verifyTimeout = '6s'")
			if tc.harm != "" {
				harm(t, l, tc.harm)
				_, err := l.Exec(ctx, "systemctl", "daemon-reload")
				check(t, err)
			}
			_, err := l.Quiesce(ctx, "hold", "until all are staged")
			check(t, err)
			for i := 1; i <= 5; i++ {
				args := []string{"install", "--handler", fmt.Sprintf("h%d", i), "--runtime-type", "io.containerd.runc.v2"}
				if i == 3 {
					args = append(args, tc.args...)
				}
				_, err := l.Installer(ctx, args...)
				check(t, err)
			}
			_, err = l.Quiesce(ctx, "release")
			check(t, err)
			for _, h := range []string{"h1", "h2", "h4", "h5"} {
				wantEnd(ctx, t, l, h, "live", "")
				wantPod(ctx, t, l, h)
			}
			wantEnd(ctx, t, l, "h3", "rejected", "rolled back")
			if stops, err := l.Stops(ctx); err != nil || len(stops) > 7 {
				t.Errorf("containerd was restarted %d times, %v; at most 7 are allowed", len(stops), err)
			}
			check(t, l.WaitCRI(ctx))
		})
	}
}
