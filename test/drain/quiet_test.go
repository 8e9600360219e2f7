package drain

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestDrain_e does to the services what must not cost a pod a signal.
func TestDrain_e(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-e"})
	pods := []Pod{Victim("default", "web", 30), Victim("default", "db", 30), Victim("kube-system", "dns", 30)}
	check(t, k.Start(ctx, pods...))
	started(ctx, t, l, names(pods)...)
	before := ids(ctx, t, l)
	packageOf(ctx, t, l)
	for _, step := range []struct{ name, script string }{
		{"restart of containerd", "systemctl restart containerd"},
		{"try-restart of containerd", "systemctl try-restart containerd"},
		{"restart of quiesce", "systemctl restart quiesce"},
		{"restart of the drain unit", "systemctl restart quiesce-drain"},
		{"stop and start of the drain unit", "systemctl stop quiesce-drain && systemctl start quiesce-drain"},
		{"daemon-reload", "systemctl daemon-reload"},
		{"daemon-reexec", "systemctl daemon-reexec"},
		{"crash of the daemon", "systemctl kill -s KILL quiesce"},
		{"crash of containerd", "systemctl kill -s KILL --kill-who=main containerd; for i in $(seq 100); do crictl ps >/dev/null 2>&1 && exit 0; sleep 0.1; done; exit 1"},
		{"upgrade of quiesce", "cp /opt/quiesce/bin/quiesce /tmp/q && mv /tmp/q /root/quiesce/quiesce && printf x >>/root/quiesce/quiesce && /root/quiesce/quiesce-installer host"},
		{"a package of containerd that stops and starts it", "dpkg --force-all -i /tmp/fake.deb && dpkg --force-all -i /tmp/fake.deb"},
		{"stop of quiesce", "systemctl stop quiesce"},
		{"disable of quiesce", "systemctl disable quiesce quiesce-drain"},
		{"stop of both", "systemctl stop quiesce quiesce-drain"},
	} {
		sh(ctx, t, l, step.script)
		check(t, l.WaitCRI(ctx))
		for _, p := range pods {
			if got := signals(t, l, p.Name); len(got) > 0 {
				t.Fatalf("%s: %s got %v", step.name, p.Name, got)
			}
		}
		if now := ids(ctx, t, l); !slices.Equal(now, before) {
			t.Fatalf("%s: containers are %v, were %v", step.name, now, before)
		}
	}
	if out := sh(ctx, t, l, "journalctl -o cat -t quiesce | grep -c 'packages are being changed' || true"); strings.TrimSpace(out) != "2" && strings.TrimSpace(out) != "1" {
		t.Errorf("the package's stops were seen %s times", out)
	}
}

// ids are the running containers with their processes.
func ids(ctx context.Context, t *testing.T, l *lab.Lab) (out []string) {
	t.Helper()
	list, err := Running(ctx, l)
	check(t, err)
	for _, ct := range list {
		out = append(out, ct.GetId())
	}
	slices.Sort(out)
	return out
}

// packageOf builds a package whose scripts stop and start containerd, as Debian's do.
func packageOf(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	for name, text := range map[string]string{
		"control":  "Package: fake-containerd\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n",
		"preinst":  "#!/bin/sh\nset -e\nsystemctl stop containerd\n",
		"postinst": "#!/bin/sh\nset -e\nsystemctl start containerd\n",
	} {
		check(t, l.WriteFile(path.Join("/tmp/fake/DEBIAN", name), []byte(text), 0o755))
	}
	sh(ctx, t, l, "dpkg-deb --build /tmp/fake /tmp/fake.deb")
}

// kubeletUnit is a unit in the place of the kubelet's: /run/kubelet is there while it runs.
const kubeletUnit = `[Unit]
After=containerd.service
[Service]
ExecStart=/bin/sh -c 'touch /run/kubelet; exec sleep infinity'
ExecStopPost=/bin/rm -f /run/kubelet
[Install]
WantedBy=multi-user.target
`

// TestDrain_f stops and starts the services on one boot, again and again: the kubelet, which keeps pods running, and the
// runtime.
func TestDrain_f(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-f", Node: node.Config{
		Files: map[string]node.File{"/etc/systemd/system/kubelet.service": {Content: kubeletUnit}}, Enable: []string{"kubelet.service"},
	}})
	k.While = func() bool {
		_, err := l.ReadFile("/run/kubelet")
		return err == nil
	}
	dns := Victim("kube-system", "dns", 10, "-after", "50ms")
	pods := []Pod{Victim("default", "web", 10, "-after", "200ms"), Victim("default", "db", 10, "-after", "400ms"), dns}
	check(t, k.Start(ctx, pods...))
	stop := k.Keep(ctx)
	defer stop()
	var slowest time.Duration
	for i := range 10 {
		started(ctx, t, l, names(pods)...)
		sh(ctx, t, l, "systemctl stop containerd")
		checkOrder(t, l, pods, i)
		if out := sh(ctx, t, l, "pgrep -x -l 'victim|pause|containerd-shim' || true"); strings.TrimSpace(out) != "" {
			t.Errorf("round %d: left over:\n%s", i, out)
		}
		sh(ctx, t, l, "rm -f "+Evidence+"/*; systemctl start containerd")
		began := time.Now()
		started(ctx, t, l, names(pods)...)
		slowest = max(slowest, time.Since(began))
	}
	t.Logf("10 stops and starts: all pods back after at most %.1f s", slowest.Seconds())
	if slowest > 30*time.Second {
		t.Errorf("pods were back after %v", slowest)
	}
	stop()
	check(t, l.Shutdown(ctx))
	checkOrder(t, l, pods, 10)
}

// checkOrder expects each pod to have got one signal, and dns after the others had exited.
func checkOrder(t *testing.T, l *lab.Lab, pods []Pod, round int) {
	t.Helper()
	var last time.Time
	for _, p := range pods {
		got := signals(t, l, p.Name)
		if len(got) != 1 {
			t.Fatalf("round %d: %s got %d signals", round, p.Name, len(got))
		}
		all, err := Events(l, p.Name)
		check(t, err)
		end := all[len(all)-1]
		if end.What != "exit" {
			t.Errorf("round %d: %s did not end by itself: %v", round, p.Name, end)
		}
		if p.Namespace == "kube-system" && got[0].At.Before(last) {
			t.Errorf("round %d: %s was signalled before the others had ended", round, p.Name)
		}
		if end.At.After(last) {
			last = end.At
		}
	}
}
