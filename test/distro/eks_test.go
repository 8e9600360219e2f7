package distro

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// nodeadm stands in for EKS's program: it writes containerd's config anew at each boot.
const nodeadm = `[Unit]
Description=writes the config of containerd
Before=containerd.service
[Service]
Type=oneshot
ExecStart=/bin/cp /usr/share/eks/config.toml /etc/containerd/config.toml
[Install]
WantedBy=multi-user.target
`

const eksConfig = `version = 3
root = "/var/lib/containerd"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '` + node.PauseImage + `'

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/usr/lib/cni']
conf_dir = '/etc/cni/net.d'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
`

// reboot switches a node off and on.
func reboot(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	check(t, l.Shutdown(ctx))
	check(t, l.Start(ctx))
}

// install installs a handler from the node itself, and waits until it is live.
func install(ctx context.Context, t *testing.T, l *lab.Lab, handler string, args ...string) {
	t.Helper()
	shim := "/root/shims/containerd-shim-" + handler
	_, err := l.Exec(ctx, "sh", "-c", "mkdir -p /root/shims && cp $(command -v containerd-shim-runc-v2) "+shim)
	check(t, err)
	_, err = l.Installer(ctx, append([]string{"install", "--handler", handler, "--shim", shim}, args...)...)
	check(t, err)
	_, err = l.WaitPhase(ctx, handler, "live")
	check(t, err)
}

func uninstall(ctx context.Context, t *testing.T, l *lab.Lab, handler string) {
	t.Helper()
	for _, verb := range [][]string{{"uninstall"}, {"status", "--wait"}} {
		_, err := l.Installer(ctx, append(verb, "--handler", handler)...)
		check(t, err)
	}
	_, err := l.WaitPhase(ctx, handler, "removed")
	check(t, err)
}

func wantProfile(ctx context.Context, t *testing.T, l *lab.Lab, name, unit string) {
	t.Helper()
	out, err := l.Installer(ctx, "status")
	check(t, err)
	for _, want := range []string{"profile " + name + ": ", "unit " + unit + ": process ", "config "} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
}

func noted(ctx context.Context, t *testing.T, l *lab.Lab, words string) bool {
	t.Helper()
	out, err := l.Quiesce(ctx, "status")
	check(t, err)
	return strings.Contains(out, words)
}

// TestConfig_c on EKS: what nodeadm overwrites at boot is there again before containerd starts, and without a restart.
func TestConfig_c_EKS(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "eks", Quiet: time.Second, Node: node.Config{
		ContainerdConfig: eksConfig, Enable: []string{"nodeadm-config.service"},
		Files: map[string]node.File{
			"/usr/share/eks/config.toml":                 {Content: eksConfig},
			"/usr/bin/nodeadm":                           {Content: "#!/bin/sh\n", Mode: 0o755},
			"/etc/systemd/system/nodeadm-config.service": {Content: nodeadm},
		},
	}})
	wantProfile(ctx, t, l, "eks", "containerd.service")
	install(ctx, t, l, "spin-v2")
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("one", "spin-v2", "exit 3")), 3)
	reboot(ctx, t, l)
	check(t, l.Until(ctx, "the repair is verified", func(ctx context.Context) (bool, error) {
		_, err := l.Exec(ctx, "test", "!", "-e", "/var/lib/quiesce/store/journal.json")
		return err == nil, nil
	}))
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("two", "spin-v2", "exit 4")), 4)
	starts, err := l.Starts(ctx)
	check(t, err)
	if len(starts) != 1 {
		t.Errorf("containerd was started %d times in this boot, want once", len(starts))
	}
	_, err = l.Exec(ctx, "systemctl", "restart", "nodeadm-config.service")
	check(t, err)
	if !noted(ctx, t, l, "somebody has overwritten /etc/containerd/config.toml") {
		t.Error("status does not tell of the drift")
	}
	_, err = l.Quiesce(ctx, "apply", "--now", "--yes")
	check(t, err)
	if noted(ctx, t, l, "somebody has overwritten") {
		t.Error("the drift is still there")
	}
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("three", "spin-v2", "exit 5")), 5)
	uninstall(ctx, t, l, "spin-v2")
	if now := readConfig(t, l); now != eksConfig {
		t.Errorf("the config is not the original one:\n%s", now)
	}
}
