package distro

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/loss"
	"quiesce/test/node"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantExit checks how a pod's main container ended.
func wantExit(ctx context.Context, t *testing.T, p *node.RunningPod, code int32) {
	t.Helper()
	s, err := p.Status(ctx, "main")
	check(t, err)
	if s.GetExitCode() != code || s.GetReason() == "Unknown" {
		log, _ := p.Log("main")
		t.Errorf("%s ended %d %s, want %d; its log:\n%s", p.Pod.Name, s.GetExitCode(), s.GetReason(), code, log)
	}
}

func run(ctx context.Context, t *testing.T, l *lab.Lab, pod node.Pod) *node.RunningPod {
	t.Helper()
	p, err := l.RunPod(ctx, pod)
	check(t, err)
	return p
}

func readConfig(t *testing.T, l *lab.Lab) string {
	t.Helper()
	b, err := l.ReadFile(config)
	check(t, err)
	return string(b)
}

const config = "/etc/containerd/config.toml"

// TestConfig_b is the demo's story, a rollback and the frozen exit codes, with each containerd.
func TestConfig_b_EveryContainerd(t *testing.T) {
	t.Parallel()
	for _, version := range node.Matrix() {
		for name, test := range map[string]func(*testing.T, string){"story": story, "codes": codes} {
			t.Run(version+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, version)
			})
		}
	}
}

// story has two installers at once, a removal, and an installer whose change containerd cannot live with.
func story(t *testing.T, version string) {
	ctx, l := lab.New(t, lab.Options{
		Name: "config-b", Quiet: time.Second, Config: "verifyTimeout = '15s'", Shims: []string{"spin-v2", "wasmtime-v1"},
		Node: node.Config{Containerd: version},
	})
	original := readConfig(t, l)
	slow, err := l.StartPod(ctx, lab.InstallPod("slow", "spin-v2", 0, 4))
	check(t, err)
	wantExit(ctx, t, run(ctx, t, l, lab.InstallPod("quick", "wasmtime-v1", 0, 0)), 0)
	check(t, slow.Wait(ctx))
	gone := time.Now()
	wantExit(ctx, t, slow, 0)
	for i, h := range []string{"spin-v2", "wasmtime-v1"} {
		_, err := l.WaitPhase(ctx, h, "live")
		check(t, err)
		wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("app-"+h, h, "exit "+string(rune('3'+i)))), int32(3+i))
	}
	starts, err := l.Starts(ctx)
	check(t, err)
	if len(starts) != 2 || starts[1].Before(gone.Add(-100*time.Millisecond)) {
		t.Errorf("containerd was started at %v, want one restart after %v", starts, gone)
	}
	check(t, l.Until(ctx, "NRI is connected", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && s.NRI.Connected, nil
	}))
	live := readConfig(t, l)
	run(ctx, t, l, lab.InstallPod("bad", "spin-v2", 0, 0, "--set", "base_runtime_spec=/nowhere/spec.json"))
	r, err := l.WaitPhase(ctx, "spin-v2", "rejected")
	check(t, err)
	if now := readConfig(t, l); now != live || !strings.Contains(r.Reason, "rolled back") {
		t.Errorf("%s; the config is now:\n%s", r.Reason, now)
	}
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("after", "spin-v2", "exit 5")), 5)
	for _, h := range []string{"spin-v2", "wasmtime-v1"} {
		wantExit(ctx, t, run(ctx, t, l, lab.UninstallPod("no-"+h, h)), 0)
		_, err := l.WaitPhase(ctx, h, "removed")
		check(t, err)
	}
	if now := readConfig(t, l); now != original {
		t.Errorf("the config is not the original one:\n%s", now)
	}
}

// codes restarts containerd while containers end.
func codes(t *testing.T, version string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	s := loss.Story{Containers: 20, Restarts: 4, Seed: 11, Say: t.Logf}
	o := s.Lab()
	o.Node.Containerd = version
	l, err := lab.Boot(ctx, o)
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	got, lost, err := s.Run(ctx, l)
	check(t, err)
	if got.Lost > 0 || got.DueWhileFrozen == 0 {
		t.Errorf("%+v; lost: %q", got, lost)
	}
}
