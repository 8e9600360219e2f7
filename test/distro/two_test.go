package distro

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// docker is a containerd as Docker brings it: without CRI, under the name and at the socket that are the default ones.
const docker = `[Unit]
StartLimitIntervalSec=0
[Service]
Type=notify
Delegate=yes
KillMode=process
Restart=always
ExecStart=/usr/local/bin/containerd
[Install]
WantedBy=multi-user.target
`

// kubelet is a process of that name with a kubelet's command line.
const kubelet = "#!/bin/sh\nwhile :; do sleep 1000; done\n"

// process is the main process of a unit, and when it was started.
func process(ctx context.Context, t *testing.T, l *lab.Lab, unit string) string {
	t.Helper()
	out, err := l.Exec(ctx, "systemctl", "show", unit, "-p", "MainPID", "-p", "InvocationID", "-p", "ActiveState")
	check(t, err)
	if !strings.Contains(out, "ActiveState=active") {
		t.Errorf("%s does not run:\n%s", unit, out)
	}
	return out
}

// TestConfig_TwoContainerds: beside the kubelet's containerd, whose unit, socket and config have names of their own, there is
// another one under the default names. The kubelet's is found, by the command line of the kubelet that runs, and at a boot by
// its unit; it alone is edited and restarted.
func TestConfig_TwoContainerds(t *testing.T) {
	t.Parallel()
	const unit, socket, own = "pods-runtime.service", "/run/pods/cri.sock", "/etc/pods/runtime.toml"
	start := "/usr/local/bin/containerd --config " + own + " --address " + socket + " --state /run/pods"
	ctx, l := lab.New(t, lab.Options{Name: "two", Quiet: time.Second, Shims: []string{"wasmtime-v1"}, Node: node.Config{
		Unit: unit, Socket: socket, ContainerdConfig: "version = 3\nroot = '/var/lib/docker/containerd'\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n",
		Enable: []string{"containerd.service", "kubelet.service"},
		Files: map[string]node.File{
			"/etc/systemd/system/containerd.service": {Content: docker},
			"/etc/systemd/system/" + unit:            {Content: fmt.Sprintf(service, "/run/pods", start)},
			"/etc/systemd/system/kubelet.service":    {Content: "[Service]\nExecStart=/usr/bin/kubelet --container-runtime-endpoint=unix://" + socket + "\n[Install]\nWantedBy=multi-user.target\n"},
			"/usr/bin/kubelet":                       {Content: kubelet, Mode: 0o755},
			own:                                      {Content: "version = 3\n" + tables},
		},
	}})
	wantProfile(ctx, t, l, "vanilla", unit)
	others, before, was := process(ctx, t, l, "containerd.service"), readConfig(t, l), process(ctx, t, l, unit)
	wantExit(ctx, t, run(ctx, t, l, lab.InstallPod("installer", "wasmtime-v1", 0, 0)), 0)
	_, err := l.WaitPhase(ctx, "wasmtime-v1", "live")
	check(t, err)
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("one", "wasmtime-v1", "exit 3")), 3)
	if now := process(ctx, t, l, unit); now == was {
		t.Errorf("the kubelet's containerd was not restarted:\n%s", now)
	}
	if now := process(ctx, t, l, "containerd.service"); now != others {
		t.Errorf("the other containerd is now\n%s\nand was\n%s", now, others)
	}
	reboot(ctx, t, l)
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("two", "wasmtime-v1", "exit 4")), 4)
	others = process(ctx, t, l, "containerd.service")
	uninstall(ctx, t, l, "wasmtime-v1")
	if r, err := l.Runtime(ctx); err != nil || r.Restarts != 1 {
		t.Errorf("the kubelet's containerd was restarted %d times, %v, want once", r.Restarts, err)
	}
	if now := process(ctx, t, l, "containerd.service"); now != others || readConfig(t, l) != before {
		t.Errorf("the other containerd is now\n%s\nand was\n%s; its config is\n%s", now, others, readConfig(t, l))
	}
}
