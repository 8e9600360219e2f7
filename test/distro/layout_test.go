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

// layout is a node laid out like one of a distribution.
type layout struct {
	profile  string
	node     node.Config
	own      []string // files of the distribution that an uninstall must leave as they were
	gone     []string // files that must not be there when quiesce is off again
	restarts string   // a command by which the distribution makes its config anew
}

// through takes a layout through install, pods, reboot, the distribution's own restart, uninstall and removal.
func (y layout) through(t *testing.T) {
	ctx, l := lab.New(t, lab.Options{Name: y.profile, Quiet: time.Second, Shims: []string{"spin-v2"}, Node: y.node})
	wantProfile(ctx, t, l, y.profile, y.node.Unit)
	before := y.files(ctx, t, l)
	slow, err := l.StartPod(ctx, lab.InstallPod("installer", "spin-v2", 0, 3))
	check(t, err)
	check(t, l.Until(ctx, "the gate waits for the installer", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && len(s.Pending) == 1 && len(s.Installers) == 1, nil
	}))
	check(t, slow.Wait(ctx))
	wantExit(ctx, t, slow, 0)
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("one", "spin-v2", "exit 3")), 3)
	reboot(ctx, t, l)
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("two", "spin-v2", "exit 4")), 4)
	if y.restarts != "" {
		_, err = l.Exec(ctx, "sh", "-c", y.restarts)
		check(t, err)
		check(t, l.WaitCRI(ctx))
		wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("three", "spin-v2", "exit 5")), 5)
	}
	uninstall(ctx, t, l, "spin-v2")
	if after := y.files(ctx, t, l); after != before {
		t.Errorf("files are\n%s\nand were\n%s", after, before)
	}
	y.removed(ctx, t, l)
}

// files are the distribution's own files.
func (y layout) files(ctx context.Context, t *testing.T, l *lab.Lab) string {
	t.Helper()
	out, err := l.Exec(ctx, "sh", "-c", fmt.Sprintf("for f in $(find %s -type f | sort); do echo \"== $f\"; cat $f; done", strings.Join(y.own, " ")))
	check(t, err)
	return out
}

// removed takes quiesce off the node: nothing of it is left.
func (y layout) removed(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	_, err := l.Installer(ctx, "host", "--remove")
	check(t, err)
	out, err := l.Exec(ctx, "find", "/etc", "/opt", "/usr/local", "/var/lib", "/run", "-xdev", "-name", "*quiesce*", "-not", "-name", "config.toml")
	check(t, err)
	if out = strings.TrimSpace(out); out != "" && out != "/etc/quiesce" { // the lab's own settings
		t.Errorf("left on disk:\n%s", out)
	}
	for _, f := range y.gone {
		if out, err := l.Exec(ctx, "find", f); err == nil {
			t.Errorf("left on disk:\n%s", out)
		}
	}
}

const service = `[Unit]
After=network.target dbus.service
StartLimitIntervalSec=0
[Service]
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
ExecStartPre=-/bin/mkdir -p %s
ExecStart=%s
[Install]
WantedBy=multi-user.target
`

// tables are what every config of the test node needs.
const tables = `
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '` + node.PauseImage + `'

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/usr/lib/cni']
conf_dir = '/etc/cni/net.d'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
`
