package distro

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// updated is a node that runs containerd 1.7, with the programs of 2.4 beside it.
func updated(t *testing.T, name string) (context.Context, *lab.Lab) {
	t.Helper()
	kit, err := node.Prepare(t.Context(), "1.7.35", "2.4.2")
	check(t, err)
	dir, err := kit.Tools(t.Context(), "2.4.2")
	check(t, err)
	tools := map[string]string{}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		tools["/root/new/"+program] = dir + "/" + program
	}
	return lab.New(t, lab.Options{
		Name: name, Quiet: time.Second, Config: "verifyTimeout = '15s'", Shims: []string{"spin-v2"}, Node: node.Config{Containerd: "1.7.35", Tools: tools},
	})
}

func wantStatus(ctx context.Context, t *testing.T, l *lab.Lab, words ...string) {
	t.Helper()
	for _, w := range words {
		check(t, l.Until(ctx, "status says "+w, func(ctx context.Context) (bool, error) {
			out, err := l.Quiesce(ctx, "status")
			return strings.Contains(out, w), err
		}))
	}
}

func wantVersion(ctx context.Context, t *testing.T, l *lab.Lab, version string) {
	t.Helper()
	out, err := l.Exec(ctx, "crictl", "version")
	check(t, err)
	if !strings.Contains(out, "RuntimeVersion:  v"+version) && !strings.Contains(out, "RuntimeVersion:  "+version) {
		t.Errorf("the runtime is not %s:\n%s", version, out)
	}
}

// replace does what a package manager does: new files under the old names, nothing restarted.
const replace = `for p in containerd-shim-runc-v2 ctr containerd; do cp /root/new/$p /usr/local/bin/.$p && mv /usr/local/bin/.$p /usr/local/bin/$p; done`

// TestConfig_Updated: containerd's package was updated from 1.7 to 2.4, and nobody has restarted it. The next change is made for
// the new one, which reads it: a drop-in, which the old one would take for the whole table of CRI. A change that the new one cannot
// live with is rolled back, to what the new one runs with.
func TestConfig_Updated(t *testing.T) {
	t.Parallel()
	ctx, l := updated(t, "updated")
	before := readConfig(t, l)
	stays, err := l.StartPod(ctx, lab.HandlerPod("stays", "", untilStopped))
	check(t, err)
	_, err = l.Exec(ctx, "sh", "-ec", "mkdir /root/shims; cp /root/new/containerd-shim-runc-v2 /root/shims/containerd-shim-spin-v2; "+replace)
	check(t, err)
	wantVersion(ctx, t, l, "1.7.35")
	wantStatus(ctx, t, l, "runs what was there before an update")
	// No pod could stage it: the old containerd does not start the new shim.
	_, err = l.Installer(ctx, "install", "--shim", "/root/shims/containerd-shim-spin-v2", "--set", "base_runtime_spec=/nowhere/spec.json")
	check(t, err)
	r, err := l.WaitPhase(ctx, "spin-v2", "rejected")
	check(t, err)
	if !strings.Contains(r.Reason, "rolled back") || readConfig(t, l) != before {
		t.Errorf("%s; the config is now:\n%s", r.Reason, readConfig(t, l))
	}
	wantVersion(ctx, t, l, "2.4.2")
	wantExit(ctx, t, run(ctx, t, l, lab.InstallPod("good", "spin-v2", 0, 0)), 0)
	check(t, l.Until(ctx, "the result is the second entry's", func(ctx context.Context) (bool, error) {
		rs, err := l.Results(ctx)
		return rs["spin-v2"].Phase != "rejected", err
	}))
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("one", "spin-v2", "exit 3")), 3)
	check(t, stays.Stop(ctx))
	wantExit(ctx, t, stays, 6)
	uninstall(ctx, t, l, "spin-v2")
	if now := readConfig(t, l); now != before {
		t.Errorf("the config is not the original one:\n%s", now)
	}
}

// TestConfig_UnitUpdated: the unit was changed to run another program with another config, and systemd knows it, but nobody has
// restarted it. Program and config of the next start count; of the present one's nothing is left.
func TestConfig_UnitUpdated(t *testing.T) {
	t.Parallel()
	ctx, l := updated(t, "unit")
	before := readConfig(t, l)
	const drop = "[Service]\nExecStart=\nExecStart=/opt/new/containerd --config /etc/new/config.toml\n"
	check(t, l.WriteFile("/etc/systemd/system/containerd.service.d/new.conf", []byte(drop), 0o644))
	check(t, l.WriteFile("/etc/new/config.toml", []byte("version = 3\n"+tables), 0o644))
	_, err := l.Exec(ctx, "sh", "-ec", "cp -r /root/new /opt/new; rm /usr/local/bin/containerd; systemctl daemon-reload")
	check(t, err)
	wantVersion(ctx, t, l, "1.7.35")
	wantStatus(ctx, t, l, "program /opt/new/containerd: the next start of containerd.service runs it", "config /etc/new/config.toml: the next start of")
	wantExit(ctx, t, run(ctx, t, l, lab.InstallPod("good", "spin-v2", 0, 0)), 0)
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	wantVersion(ctx, t, l, "2.4.2")
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("one", "spin-v2", "exit 3")), 3)
	uninstall(ctx, t, l, "spin-v2")
	if out, err := l.Exec(ctx, "cat", "/etc/new/config.toml"); err != nil || out != "version = 3\n"+tables || readConfig(t, l) != before {
		t.Errorf("the configs are not the original ones: %v\n%s", err, out)
	}
}
