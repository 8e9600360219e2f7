package fault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// gatesAndApplies stages with a container in the way of a lost exit code, and wants it live and the code kept.
func gatesAndApplies(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	p, err := l.StartPod(ctx, lab.HandlerPod("job", "", "sleep 3600 & trap 'exit 3' TERM; wait"))
	check(t, err)
	stage(ctx, t, l, "works")
	wantPhase(ctx, t, l, "works", "live")
	wantPod(ctx, t, l, "works")
	check(t, p.Stop(ctx))
	if s, err := p.Status(ctx, "main"); err != nil || s.GetExitCode() != 3 {
		t.Errorf("a container over the restart: %v, %v", s, err)
	}
	var restart struct {
		Freeze struct{ Containers int }
	}
	readJSON(t, l, lab.Results+"/restart.json", &restart)
	if restart.Freeze.Containers != 1 {
		t.Errorf("%d containers were frozen, want one", restart.Freeze.Containers)
	}
}

func TestModes_NRIOff(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "modes-nri", NoHost: true, Node: node.Config{ContainerdTables: "[plugins.'io.containerd.nri.v1.nri']\n  disable = true\n"}})
	check(t, l.WriteFile("/etc/quiesce/config.toml", []byte("quietPeriod = '1s'\n"), 0o644))
	_, err := l.Installer(ctx, "host")
	check(t, err)
	statusSays(ctx, t, l, "NRI", "not connected", "creations are not fenced off")
	gatesAndApplies(ctx, t, l)
	_, err = l.StartPod(ctx, node.Pod{Namespace: "kube-system", Name: "installer", Labels: node.JobLabels("x-install"), Containers: []node.Container{node.Shell("sleep 3600")}})
	check(t, err)
	stage(ctx, t, l, "later")
	statusSays(ctx, t, l, "closed by installers in flight", "kube-system/installer")
}

func TestModes_DBusStopped(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "modes-dbus", Quiet: time.Second})
	sh(ctx, t, l, "systemctl stop dbus.socket dbus.service")
	statusSays(ctx, t, l, "the D-Bus daemon does not answer")
	gatesAndApplies(ctx, t, l)
	sh(ctx, t, l, "systemctl start dbus.socket")
	check(t, l.Until(ctx, "status no longer says it", func(ctx context.Context) (bool, error) {
		out, err := l.Quiesce(ctx, "status")
		return !contains(out, "D-Bus"), err
	}))
	_, err := l.Installer(ctx, "host")
	check(t, err)
}

func TestModes_SystemdCgroupDriver(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "modes-cgroup", Quiet: time.Second, Node: node.Config{SystemdCgroup: true}})
	gatesAndApplies(ctx, t, l)
}

// TestModes_OtherRuntimes: CRI-O, and a containerd without CRI, are refused before anything is written.
func TestModes_OtherRuntimes(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "modes-other", NoHost: true})
	before := hostFiles(ctx, t, l)
	check(t, l.WriteFile("/var/lib/kubelet/config.yaml", []byte("containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n"), 0o644))
	_, err := l.Installer(ctx, "host")
	failsWith(t, err, 2, "this node's runtime is CRI-O")
	sh(ctx, t, l, "rm /var/lib/kubelet/config.yaml; echo 'disabled_plugins = [\"cri\"]' >/etc/containerd/other.toml; cat /etc/containerd/config.toml >>/etc/containerd/other.toml; mv /etc/containerd/other.toml /etc/containerd/config.toml")
	_, err = l.Installer(ctx, "host")
	failsWith(t, err, 2, "CRI plugin is disabled")
	if after := hostFiles(ctx, t, l); after != before {
		t.Errorf("changed: %s", diff(before, after))
	}
	if left, err := l.Exec(ctx, "ls", "/var/lib/quiesce"); err == nil {
		t.Error(errors.New("a stage was made: " + left))
	}
}
