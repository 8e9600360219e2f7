package drain

import (
	"context"
	"slices"
	"strings"
	"testing"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestDrain_k is a node with microk8s' units and paths, and one with a single all-in-one unit as k3s has; containerd is the
// node's.
func TestDrain_k(t *testing.T) {
	t.Parallel()
	image, err := PostgresImage(t.Context(), t.TempDir())
	check(t, err)
	for name, dist := range map[string]distro{"microk8s": microk8s(), "k3s": k3s()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, l, k := setup(t, lab.Options{Name: "drain-k", NoHost: true, Node: node.Config{Images: []node.Image{image}}})
			check(t, dist.install(ctx, l))
			d, err := StartDatabase(ctx, l, k)
			check(t, err)
			check(t, d.Load(ctx, 500))
			before := ids(ctx, t, l)
			refresh(ctx, t, l, d, dist.units)
			if now := ids(ctx, t, l); !slices.Equal(now, before) {
				t.Errorf("after the refresh containers are %v, were %v", now, before)
			}
			sh(ctx, t, l, dist.stop)
			committed := d.Seen()
			if left := sh(ctx, t, l, "pgrep -x 'postgres|pgbench|psql|victim|pause|containerd-shim' || true"); left != "" {
				t.Errorf("left after the stop: %s", left)
			}
			if !strings.Contains(d.Log(), "database system is shut down") {
				t.Errorf("no clean shutdown:\n%s", d.Log())
			}
			check(t, d.Again(ctx, dist.units...))
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

// TestDrain_AllInOne stops a program that is the kubelet too: it lives on during the drain, and makes sandboxes anew whose
// containers are refused. The last of them may outlive the stop, empty; after the next start its pod runs in it, or in its place.
func TestDrain_AllInOne(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-one", NoHost: true})
	dist := k3s()
	check(t, dist.install(ctx, l))
	k.While = func() bool {
		_, err := l.ReadFile("/run/kubelet")
		return err == nil
	}
	pods := []Pod{Victim("default", "web", 10, "-after", "300ms"), Victim("default", "db", 10, "-after", "1s"), Victim("kube-system", "dns", 10)}
	check(t, k.Start(ctx, pods...))
	started(ctx, t, l, names(pods)...)
	defer k.Keep(ctx)()
	for range 3 {
		sh(ctx, t, l, dist.stop)
		checkOrder(t, l, pods, 0)
		if left := sh(ctx, t, l, "pgrep -x -l victim || true"); left != "" {
			t.Errorf("left after the stop: %s", left)
		}
		t.Logf("%s sandboxes are left, %d creations were refused", strings.TrimSpace(sh(ctx, t, l, "pgrep -x -c pause || true")), k.Refused())
		sh(ctx, t, l, "rm -f "+Evidence+"/*; systemctl start k3s")
		started(ctx, t, l, names(pods)...)
		check(t, l.Until(ctx, "every pod has one sandbox", func(ctx context.Context) (bool, error) {
			out, err := script(ctx, l, "pgrep -x -c pause || true")
			return strings.TrimSpace(out) == "3", err
		}))
		if n := sh(ctx, t, l, "pgrep -x -c victim || true"); strings.TrimSpace(n) != "3" {
			t.Errorf("%s victims run", n)
		}
	}
}

// refresh stops and starts the units while a stand-in of snapd says that it refreshes the snap.
func refresh(ctx context.Context, t *testing.T, l *lab.Lab, d *Database, units []string) {
	t.Helper()
	sh(ctx, t, l, `body='{"type":"sync","result":[{"kind":"refresh-snap","summary":"Refresh \"microk8s\" snap","status":"Doing","ready":false}]}'
printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' ${#body} "$body" >/tmp/answer
systemd-run -q --unit fake-snapd socat UNIX-LISTEN:/run/snapd.socket,fork SYSTEM:'cat /tmp/answer'
while ! [ -S /run/snapd.socket ]; do sleep 0.1; done
`+"systemctl stop "+strings.Join(units, " ")+"; systemctl stop fake-snapd; rm -f /run/snapd.socket; systemctl start "+strings.Join(units, " "))
	check(t, l.WaitCRI(ctx))
	check(t, l.Until(ctx, "the drain unit is active", func(ctx context.Context) (bool, error) {
		out, _ := l.Exec(ctx, "systemctl", "is-active", "quiesce-drain") // an exit code other than 0: it is not yet
		return out == "active\n", nil
	}))
	if strings.Contains(d.Log(), "shutdown request") {
		t.Errorf("the refresh stopped PostgreSQL:\n%s", d.Log())
	}
}
