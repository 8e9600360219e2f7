package drain

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

const (
	microContainerd = "snap.microk8s.daemon-containerd.service"
	microKubelite   = "snap.microk8s.daemon-kubelite.service"
)

// runtimeUnit is a unit of another name for the node's containerd.
const runtimeUnit = `[Unit]
After=network.target dbus.service
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
`

// TestDrain_k is a node with microk8s' units, and one with a single all-in-one unit as k3s has; containerd is the node's,
// and microk8s' kubelite a stand-in.
func TestDrain_k(t *testing.T) {
	check(t, node.InstallPackages(t.Context(), pgBin+"postgres", "postgresql-15"))
	image := node.Image{Name: pgImage, Files: pgFiles(t)}
	for name, tc := range map[string]struct {
		unit, kubelet, stop, start string
	}{
		"microk8s": {
			unit: microContainerd, kubelet: microKubelite,
			// What `microk8s stop` does: the services, then whatever it finds left (microk8s-stop.wrapper).
			stop:  "systemctl stop " + microKubelite + " " + microContainerd + "; pkill -KILL -f 'containerd-[s]him' || true",
			start: "systemctl start " + microContainerd + " " + microKubelite,
		},
		"k3s": {unit: "k3s.service", stop: "systemctl stop k3s", start: "systemctl start k3s"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, l, k := setup(t, 3*time.Minute, lab.Options{Name: "drain-k", NoHost: true, Node: node.Config{Images: []node.Image{image}}})
			convert(ctx, t, l, tc.unit, tc.kubelet)
			server := database(ctx, t, l, k)
			bench(ctx, t, l, k)
			check(t, l.Until(ctx, "500 commits are seen", func(context.Context) (bool, error) { return len(seen(t, l)) > 500, nil }))
			before := ids(ctx, t, l)
			refresh(ctx, t, l, tc.stop, tc.start)
			if now := ids(ctx, t, l); strings.Join(now, " ") != strings.Join(before, " ") {
				t.Errorf("after the refresh containers are %v, were %v", now, before)
			}
			sh(ctx, t, l, tc.stop)
			committed := seen(t, l)
			if left := sh(ctx, t, l, "pgrep -x 'postgres|pgbench|psql|victim' || true"); left != "" {
				t.Errorf("left after the stop: %s", left)
			}
			log, err := l.ReadFile(pgData + "/pg.log")
			check(t, err)
			if !strings.Contains(string(log), "database system is shut down") {
				t.Errorf("no clean shutdown:\n%s", log)
			}
			sh(ctx, t, l, "mv "+pgData+"/pg.log "+pgData+"/before.log; "+tc.start)
			check(t, l.WaitCRI(ctx))
			check(t, k.sync(ctx, server))
			ready(ctx, t, l)
			if n := sh(ctx, t, l, "pgrep -x -c postgres -P $(pgrep -f '[c]ontainerd-shim' | paste -sd,) || true"); strings.TrimSpace(n) != "1" {
				t.Errorf("%s copies of PostgreSQL run", n)
			}
			if lost := missing(ctx, t, l, server, committed); lost > 0 {
				t.Errorf("%d of %d rows are lost", lost, len(committed))
			}
		})
	}
}

// convert gives the node's containerd another unit, and puts quiesce on the node for that.
func convert(ctx context.Context, t *testing.T, l *lab.Lab, unit, kubelet string) {
	t.Helper()
	check(t, l.WriteFile("/etc/systemd/system/"+unit, []byte(runtimeUnit), 0o644))
	if kubelet != "" {
		check(t, l.WriteFile("/etc/systemd/system/"+kubelet, []byte("[Unit]\nAfter="+unit+"\n[Service]\nExecStart=/bin/sleep infinity\n"), 0o644))
	}
	check(t, l.WriteFile("/etc/quiesce/config.toml", []byte("unit = '"+unit+"'\n[drain]\nkubelet = '"+kubelet+"'\n"), 0o644))
	sh(ctx, t, l, "systemctl disable --now containerd && systemctl daemon-reload && systemctl enable --now "+unit)
	if kubelet != "" {
		sh(ctx, t, l, "systemctl start "+kubelet)
	}
	check(t, l.WaitCRI(ctx))
	_, err := l.Installer(ctx, "host", "--unit", unit)
	check(t, err)
}

// refresh stops and starts the units while a stand-in of snapd says that it refreshes the snap.
func refresh(ctx context.Context, t *testing.T, l *lab.Lab, stop, start string) {
	t.Helper()
	units, _, _ := strings.Cut(stop, ";")
	sh(ctx, t, l, `body='{"type":"sync","result":[{"kind":"refresh-snap","summary":"Refresh \"microk8s\" snap","status":"Doing","ready":false}]}'
printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' ${#body} "$body" >/tmp/answer
systemd-run -q --unit fake-snapd socat UNIX-LISTEN:/run/snapd.socket,fork SYSTEM:'cat /tmp/answer'
while ! [ -S /run/snapd.socket ]; do sleep 0.1; done
`+units+"; systemctl stop fake-snapd; rm -f /run/snapd.socket; "+start)
	check(t, l.WaitCRI(ctx))
	log, err := l.ReadFile(pgData + "/pg.log")
	check(t, err)
	if strings.Contains(string(log), "shutdown request") {
		t.Errorf("the refresh stopped PostgreSQL:\n%s", log)
	}
}
