package drain

import (
	"context"
	"slices"
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
	t.Parallel()
	image, err := PostgresImage(t.Context(), t.TempDir())
	check(t, err)
	for name, tc := range map[string]struct {
		unit, kubelet, stop string
		start               []string
	}{
		"microk8s": {
			unit: microContainerd, kubelet: microKubelite,
			// What `microk8s stop` does: the services, then whatever it finds left (microk8s-stop.wrapper).
			stop:  "systemctl stop " + microKubelite + " " + microContainerd + "; pkill -KILL -f 'containerd-[s]him' || true",
			start: []string{microContainerd, microKubelite},
		},
		"k3s": {unit: "k3s.service", stop: "systemctl stop k3s", start: []string{"k3s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, l, k := setup(t, 3*time.Minute, lab.Options{Name: "drain-k", NoHost: true, Node: node.Config{Images: []node.Image{image}}})
			convert(ctx, t, l, tc.unit, tc.kubelet)
			d, err := StartDatabase(ctx, l, k)
			check(t, err)
			check(t, d.Load(ctx, 500))
			before := ids(ctx, t, l)
			refresh(ctx, t, l, d, tc.stop, tc.start)
			if now := ids(ctx, t, l); !slices.Equal(now, before) {
				t.Errorf("after the refresh containers are %v, were %v", now, before)
			}
			sh(ctx, t, l, tc.stop)
			committed := d.Seen()
			if left := sh(ctx, t, l, "pgrep -x 'postgres|pgbench|psql|victim|pause|containerd-shim' || true"); left != "" {
				t.Errorf("left after the stop: %s", left)
			}
			if !strings.Contains(d.Log(), "database system is shut down") {
				t.Errorf("no clean shutdown:\n%s", d.Log())
			}
			check(t, d.Again(ctx, tc.start...))
			if n := sh(ctx, t, l, "pgrep -x -c postgres -P $(pgrep -x containerd-shim | paste -sd,) || true"); strings.TrimSpace(n) != "1" {
				t.Errorf("%s copies of PostgreSQL run", n)
			}
			lost, err := d.Missing(ctx, committed)
			check(t, err)
			if lost > 0 {
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
func refresh(ctx context.Context, t *testing.T, l *lab.Lab, d *Database, stop string, start []string) {
	t.Helper()
	units, _, _ := strings.Cut(stop, ";")
	sh(ctx, t, l, `body='{"type":"sync","result":[{"kind":"refresh-snap","summary":"Refresh \"microk8s\" snap","status":"Doing","ready":false}]}'
printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' ${#body} "$body" >/tmp/answer
systemd-run -q --unit fake-snapd socat UNIX-LISTEN:/run/snapd.socket,fork SYSTEM:'cat /tmp/answer'
while ! [ -S /run/snapd.socket ]; do sleep 0.1; done
`+units+"; systemctl stop fake-snapd; rm -f /run/snapd.socket; systemctl start "+strings.Join(start, " "))
	check(t, l.WaitCRI(ctx))
	if strings.Contains(d.Log(), "shutdown request") {
		t.Errorf("the refresh stopped PostgreSQL:\n%s", d.Log())
	}
}
