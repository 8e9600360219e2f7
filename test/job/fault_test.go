package job

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"quiesce/test/lab"
)

func TestJob_i_ChurnIsNoReasonToRollBack(t *testing.T) {
	t.Parallel()
	handlers := []string{"spin-v2", "wasmtime-v1", "slight-v1"}
	ctx, l := lab.New(t, lab.Options{Name: "job-i", Quiet: 300 * time.Millisecond, Shims: handlers})
	stop := make(chan struct{})
	var churn sync.WaitGroup
	for w := range 3 {
		churn.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				p, err := l.RunPod(ctx, lab.HandlerPod(fmt.Sprintf("churn-%d-%d", w, i), "", "sleep 0.2; exit 1"))
				if err == nil {
					err = p.Remove(ctx)
				}
				if err != nil {
					t.Errorf("churn: %v", err)
					return
				}
			}
		})
	}
	for _, h := range handlers {
		_, err := l.Exec(ctx, "/root/quiesce/quiesce-installer", "install", "--handler", h, "--runtime-type", "io.containerd.runc.v2")
		check(t, err)
		_, err = l.WaitPhase(ctx, h, "live")
		check(t, err)
	}
	close(stop)
	churn.Wait()
	s, err := l.Status(ctx)
	check(t, err)
	if s.LastRestart.Done != 3 || s.LastRestart.Broken != 0 {
		t.Errorf("%d restarts were verified, %d failed; want 3 and 0", s.LastRestart.Done, s.LastRestart.Broken)
	}
}

func TestJob_i_ALateSynchronizeIsNoReasonToRollBack(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-i-late"})
	_, err := l.Exec(ctx, "systemctl", "kill", "-s", "STOP", "quiesce.service")
	check(t, err)
	_, err = l.Installer(ctx, "install", "--handler", "spin-v2", "--runtime-type", "io.containerd.runc.v2")
	check(t, err)
	out, err := l.Quiesce(ctx, "apply", "--now", "--yes") // the daemon cannot register with the new containerd meanwhile
	check(t, err)
	if !strings.Contains(out, "live") {
		t.Errorf("apply --now says %q", out)
	}
	_, err = l.Exec(ctx, "systemctl", "kill", "-s", "CONT", "quiesce.service")
	check(t, err)
	check(t, l.Until(ctx, "NRI is synchronized again", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && s.NRI.Connected && s.LastRestart.Done == 1, nil
	}))
	wantRestarts(ctx, t, l, 1)
}

func TestJob_i_AnOrphanIsRolledBack(t *testing.T) {
	t.Parallel()
	const foo = "/usr/local/bin/containerd-shim-foo-v2"
	ctx, l := lab.New(t, lab.Options{Name: "job-i-orphan", Quiet: time.Second})
	_, err := l.Installer(ctx, "install", "--handler", "foo", "--runtime-type", "io.containerd.foo.v2")
	check(t, err)
	_, err = l.Exec(ctx, "cp", "/usr/local/bin/containerd-shim-runc-v2", foo)
	check(t, err)
	_, err = l.WaitPhase(ctx, "foo", "live")
	check(t, err)
	start(ctx, t, l, lab.HandlerPod("app", "foo", "while :; do sleep 1; done"))
	// Somebody else takes the shim away at the very moment of the restart.
	check(t, l.WriteFile("/run/systemd/system/containerd.service.d/harm.conf", []byte("[Service]\nExecStopPost=rm -f "+foo+"\n"), 0o644))
	_, err = l.Exec(ctx, "systemctl", "daemon-reload")
	check(t, err)
	_, err = l.Installer(ctx, "install", "--handler", "bar", "--runtime-type", "io.containerd.runc.v2")
	check(t, err)
	r, err := l.WaitPhase(ctx, "bar", "rejected")
	check(t, err)
	if !strings.Contains(r.Reason, "lost sight of running containers") || !strings.Contains(r.Reason, "default/app") {
		t.Errorf("the reason is %q", r.Reason)
	}
	if b := l.ReadConfig(t); strings.Contains(b, "bar") {
		t.Errorf("config still has the handler:\n%s", b)
	}
}

func TestJob_j_StagedWhileTheNodeIsOff(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "job-j", Config: "verifyTimeout = '8s'", Shims: []string{"spin-v2"}})
	check(t, l.Shutdown(ctx))
	offline(ctx, t, l, "spin-v2", "--shim", l.Path("/usr/local/bin/containerd-shim-runc-v2"))
	check(t, l.Start(ctx))
	_, err := l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	wantRestarts(ctx, t, l, 0)
	wantExit(ctx, t, l.Must(ctx, t, lab.HandlerPod("app", "spin-v2", "exit 7")), "main", 7)

	check(t, l.Shutdown(ctx))
	offline(ctx, t, l, "bad", "--runtime-type", "io.containerd.runc.v2", "--set", "base_runtime_spec=/nowhere/spec.json")
	check(t, l.Start(ctx))
	r, err := l.WaitPhase(ctx, "bad", "rejected")
	check(t, err)
	if !strings.Contains(r.Reason, "rolled back") {
		t.Errorf("the reason is %q", r.Reason)
	}
	check(t, l.WaitCRI(ctx))
	wantRestarts(ctx, t, l, 1) // the rollback's
	wantExit(ctx, t, l.Must(ctx, t, lab.HandlerPod("app2", "spin-v2", "exit 8")), "main", 8)
}

// offline stages on the file system of a node that is off.
func offline(ctx context.Context, t *testing.T, l *lab.Lab, handler string, args ...string) {
	t.Helper()
	argv := append([]string{"install", "--handler", handler, "--inbox", l.Path(lab.Inbox)}, args...)
	out, err := exec.CommandContext(ctx, l.Path("/root/quiesce/quiesce-installer"), argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("stage offline: %v\n%s", err, out)
	}
}
