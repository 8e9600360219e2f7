package drain

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
)

// Database is PostgreSQL in a pod: on the host's network, its data on a host path.
type Database struct {
	lab     *lab.Lab
	kubelet *Kubelet
	server  Pod
}

// commits is where the client writes the ids whose commit it saw.
const commits = Evidence + "/commits"

// pg is a pod with one container of a script in the PostgreSQL image.
func pg(name string, grace int, script string) Pod {
	return Pod{
		Namespace: "db", Name: name, UID: uid(), Grace: grace, Labels: map[string]string{"app": name}, Annotations: map[string]string{},
		Containers: []Container{{
			Name: "main", Image: pgImage, Argv: []string{"/bin/sh", "-c", script},
			Mounts: map[string]string{pgData: "/data", Evidence: "/evidence"},
		}},
	}
}

// StartDatabase starts a database and waits until it is ready.
func StartDatabase(ctx context.Context, l *lab.Lab, k *Kubelet) (*Database, error) {
	d := &Database{lab: l, kubelet: k}
	if _, err := script(ctx, l, "mkdir -p "+pgData+" && chown 999:999 "+pgData+" && chmod 700 "+pgData); err != nil {
		return nil, err
	}
	d.server = pg("postgres", 60, `cd /data
[ -s /data/db/PG_VERSION ] || `+pgBin+`initdb -D /data/db --locale=C -E UTF8 -A trust >/data/init.log 2>&1 && echo "host all all 0.0.0.0/0 trust" >>/data/db/pg_hba.conf
exec `+pgBin+`postgres -D /data/db -c listen_addresses=`+pgHost+` -c unix_socket_directories=/data -c timezone=GMT -c log_timezone=GMT >>/data/pg.log 2>&1`)
	d.server.HostNetwork, d.server.Containers[0].User = true, 999
	d.server.Annotations["quiesce.internal/after"] = "app=bench"
	d.server.Containers[0].StopSignal = "SIGINT" // fast, as in the official image
	if err := k.Start(ctx, d.server); err != nil {
		return nil, err
	}
	return d, d.ready(ctx)
}

func (d *Database) ready(ctx context.Context) error {
	short, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not within a minute"))
	defer cancel()
	err := d.lab.Until(short, "PostgreSQL is ready", func(context.Context) (bool, error) {
		return strings.Contains(d.Log(), "ready to accept connections"), nil
	})
	if err != nil {
		init, _ := d.lab.ReadFile(pgData + "/init.log")
		return fmt.Errorf("%w\n%s\n%s", err, init, d.Log())
	}
	return nil
}

// Log is what the database has logged since it was last started.
func (d *Database) Log() string {
	b, _ := d.lab.ReadFile(pgData + "/pg.log") // not there: it has not started yet
	return string(b)
}

// Load starts a client pod, and a pod of the network tier, and waits until the client has seen n commits. It runs
// pgbench, and psql as the witness of commits: that prints an id when the row with it is committed.
func (d *Database) Load(ctx context.Context, n int) error {
	db := "-h " + pgHost + " -U postgres postgres"
	client := pg("bench", 10, pgBin+"psql -c 'create table seen(id bigserial primary key, at timestamptz default now())' "+db+
		" && "+pgBin+"pgbench -i -q -h "+pgHost+" -U postgres postgres >/dev/null 2>&1; trap 'kill $w $b; exit 0' TERM\n"+
		pgBin+"pgbench -n -c 2 -T 1000 -h "+pgHost+" -U postgres postgres >/dev/null 2>&1 & b=$!\n"+
		"yes 'insert into seen default values returning id;' | "+pgBin+"psql -qAt "+db+" >>/evidence/commits 2>/evidence/psql.err & w=$!\nwait")
	net := Victim("kube-system", "net", 10, "-after", "100ms")
	net.Containers[0].Mounts["/opt/cni/bin"] = "/cni"
	if _, err := script(ctx, d.lab, "mkdir -p /opt/cni/bin"); err != nil {
		return err
	}
	if err := d.kubelet.Start(ctx, client, net); err != nil {
		return err
	}
	return d.lab.Until(ctx, fmt.Sprintf("%d commits are seen", n), func(context.Context) (bool, error) { return len(d.Seen()) > n, nil })
}

// Seen lists the ids whose commit the client saw.
func (d *Database) Seen() (ids []int) {
	b, _ := d.lab.ReadFile(commits) // not there: none yet
	for line := range strings.Lines(string(b)) {
		if id, err := strconv.Atoi(strings.TrimSuffix(line, "\n")); err == nil && strings.HasSuffix(line, "\n") {
			ids = append(ids, id)
		}
	}
	return ids
}

// Again starts the runtime's unit and the database anew; its log begins anew, too. units are those to start,
// containerd if there are none.
func (d *Database) Again(ctx context.Context, units ...string) error {
	if len(units) == 0 {
		units = []string{"containerd"}
	}
	if _, err := script(ctx, d.lab, "mv "+pgData+"/pg.log "+pgData+"/before.log; systemctl start "+strings.Join(units, " ")); err != nil {
		return err
	}
	if err := d.lab.WaitCRI(ctx); err != nil {
		return err
	}
	if err := d.kubelet.sync(ctx, d.server); err != nil {
		return err
	}
	return d.ready(ctx)
}

// Missing counts the ids that the database does not have.
func (d *Database) Missing(ctx context.Context, ids []int) (int, error) {
	list, err := containers(ctx, d.lab, &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": d.server.UID},
	})
	if err != nil {
		return 0, err
	}
	if len(list) != 1 {
		return 0, fmt.Errorf("ask PostgreSQL: %d containers of it run", len(list))
	}
	cri, err := d.lab.CRI(ctx)
	if err != nil {
		return 0, err
	}
	r, err := cri.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: list[0].GetId(),
		Cmd:         []string{pgBin + "psql", "-h", pgHost, "-U", "postgres", "-qAt", "-c", "select id from seen", "postgres"}, Timeout: 30,
	})
	if err != nil {
		return 0, fmt.Errorf("ask PostgreSQL: %w", err)
	}
	if r.GetExitCode() != 0 {
		return 0, fmt.Errorf("ask PostgreSQL: %s", r.GetStderr())
	}
	have := map[string]bool{}
	for id := range strings.FieldsSeq(string(r.GetStdout())) {
		have[id] = true
	}
	lost := 0
	for _, id := range ids {
		if !have[strconv.Itoa(id)] {
			lost++
		}
	}
	return lost, nil
}
