package drain

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
	"quiesce/test/node"
)

const (
	pgBin   = "/usr/lib/postgresql/15/bin/"
	pgImage = "localhost/postgres:1"
	pgHost  = "10.99.0.1"
	pgData  = "/var/lib/pg"
)

// pgFiles is this machine's PostgreSQL with the libraries it needs; Debian's package.
func pgFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	var programs []string
	for _, dir := range []string{"/usr/lib/postgresql/15/lib", "/usr/share/postgresql/15"} {
		check(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.Contains(p, "bitcode") && !strings.Contains(p, "/man/") {
				files[p] = p
				if strings.HasSuffix(p, ".so") {
					programs = append(programs, p)
				}
			}
			return err
		}))
	}
	for _, p := range []string{"postgres", "initdb", "psql", "pgbench", "pg_controldata"} {
		files[pgBin+p] = pgBin + p
		programs = append(programs, pgBin+p)
	}
	for _, p := range []string{"UTC", "GMT"} {
		files["/usr/share/zoneinfo/"+p] = "/usr/share/zoneinfo/" + p
	}
	for _, p := range programs {
		out, err := exec.CommandContext(t.Context(), "ldd", p).Output()
		if err != nil {
			continue // needs what only its server has
		}
		for field := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(field, "/") {
				files[field] = field
			}
		}
	}
	passwd := filepath.Join(t.TempDir(), "passwd")
	check(t, os.WriteFile(passwd, []byte("root:x:0:0:root:/root:/bin/sh\npostgres:x:999:999:p:/data:/bin/sh\n"), 0o644))
	files["/etc/passwd"] = passwd
	return files
}

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

// TestDrain_a stops the services of a node under a database that is being written to, in four ways.
func TestDrain_a(t *testing.T) {
	check(t, node.InstallPackages(t.Context(), pgBin+"postgres", "postgresql-15"))
	image := node.Image{Name: pgImage, Files: pgFiles(t)}
	for name, tc := range map[string]struct {
		stop  string
		clean bool
	}{
		"stop of the services": {"systemctl stop containerd", true},
		"killall":              {"systemctl stop quiesce-drain; pkill -KILL containerd-shim; pkill -KILL -x postgres; pkill -KILL -x psql; pkill -KILL -x pgbench; systemctl stop containerd", false},
		"pause and kill": {
			"systemctl stop quiesce-drain; for c in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io tasks pause $c; done; " +
				"for c in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io tasks kill -s SIGKILL $c; ctr -n k8s.io tasks resume $c || true; done; systemctl kill -s KILL containerd; systemctl stop containerd", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, l, k := setup(t, 2*time.Minute, lab.Options{Name: "drain-a", Node: node.Config{Images: []node.Image{image}}})
			server := database(ctx, t, l, k)
			bench(ctx, t, l, k)
			check(t, l.Until(ctx, "1,500 commits are seen", func(context.Context) (bool, error) { return len(seen(t, l)) > 1500, nil }))
			sh(ctx, t, l, tc.stop)
			committed := seen(t, l)
			log, err := l.ReadFile(pgData + "/pg.log")
			check(t, err)
			clean := strings.Contains(string(log), "database system is shut down")
			sh(ctx, t, l, "mv "+pgData+"/pg.log "+pgData+"/before.log; systemctl start containerd")
			check(t, l.WaitCRI(ctx))
			check(t, k.sync(ctx, server))
			ready(ctx, t, l)
			log, err = l.ReadFile(pgData + "/pg.log")
			check(t, err)
			recovery := strings.Contains(string(log), "automatic recovery in progress")
			lost := missing(ctx, t, l, server, committed)
			t.Logf("%s: clean shutdown %v, recovery at the next start %v, %d commits seen, %d lost\n%s", name, clean, recovery, len(committed), lost, log)
			if clean != tc.clean || recovery == tc.clean || lost > 0 {
				before, _ := l.ReadFile(pgData + "/before.log")
				t.Errorf("clean %v, recovery %v, lost %d\n%s", clean, recovery, lost, before)
			}
			if tc.clean {
				r := report(ctx, t, l)
				for c, o := range r.outcomes() {
					if o != "exited" {
						t.Errorf("%s: %s", c, o)
					}
				}
			}
		})
	}
}

// database starts PostgreSQL on the host's network, with its data on a host path.
func database(ctx context.Context, t *testing.T, l *lab.Lab, k *Kubelet) Pod {
	t.Helper()
	sh(ctx, t, l, "mkdir -p "+pgData+" && chown 999:999 "+pgData+" && chmod 700 "+pgData)
	server := pg("postgres", 60, `cd /data
[ -s /data/db/PG_VERSION ] || `+pgBin+`initdb -D /data/db --locale=C -E UTF8 -A trust >/data/init.log 2>&1 && echo "host all all 0.0.0.0/0 trust" >>/data/db/pg_hba.conf
exec `+pgBin+`postgres -D /data/db -c listen_addresses=`+pgHost+` -c unix_socket_directories=/data -c timezone=GMT -c log_timezone=GMT >>/data/pg.log 2>&1`)
	server.HostNetwork, server.Containers[0].User = true, 999
	server.Annotations["quiesce.internal/after"] = "app=bench"
	server.Containers[0].StopSignal = "SIGINT" // fast, as in the official image
	check(t, k.Start(ctx, server))
	ready(ctx, t, l)
	return server
}

func ready(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	short, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	if err := l.Until(short, "PostgreSQL is ready", func(context.Context) (bool, error) {
		b, err := l.ReadFile(pgData + "/pg.log")
		return err == nil && strings.Contains(string(b), "ready to accept connections"), nil
	}); err != nil {
		init, _ := l.ReadFile(pgData + "/init.log")
		log, _ := l.ReadFile(pgData + "/pg.log")
		t.Fatalf("%v\n%s\n%s", err, init, log)
	}
}

// bench runs pgbench, and psql as the witness of commits: it prints an id when the row with it is committed.
func bench(ctx context.Context, t *testing.T, l *lab.Lab, k *Kubelet) {
	t.Helper()
	db := "-h " + pgHost + " -U postgres postgres"
	load := pg("bench", 10, pgBin+"psql -c 'create table seen(id bigserial primary key, at timestamptz default now())' "+db+
		" && "+pgBin+"pgbench -i -q -h "+pgHost+" -U postgres postgres >/dev/null 2>&1; trap 'kill $w $b; exit 0' TERM\n"+
		pgBin+"pgbench -n -c 2 -T 1000 -h "+pgHost+" -U postgres postgres >/dev/null 2>&1 & b=$!\n"+
		"yes 'insert into seen default values returning id;' | "+pgBin+"psql -qAt "+db+" >>/evidence/commits 2>/evidence/psql.err & w=$!\nwait")
	net := Victim("kube-system", "net", 10, "-after", "100ms")
	net.Containers[0].Mounts["/opt/cni/bin"] = "/cni"
	sh(ctx, t, l, "mkdir -p /opt/cni/bin")
	check(t, k.Start(ctx, load, net))
}

// seen lists the ids whose commit the client saw.
func seen(t *testing.T, l *lab.Lab) (ids []int) {
	t.Helper()
	b, err := l.ReadFile(Evidence + "/commits")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if id, err := strconv.Atoi(strings.TrimSuffix(line, "\n")); err == nil && strings.HasSuffix(line, "\n") {
			ids = append(ids, id)
		}
	}
	return ids
}

// missing counts the ids that the database does not have.
func missing(ctx context.Context, t *testing.T, l *lab.Lab, server Pod, ids []int) int {
	t.Helper()
	cri, err := l.CRI(ctx)
	check(t, err)
	list, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": server.UID},
	}})
	check(t, err)
	r, err := cri.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: list.GetContainers()[0].GetId(),
		Cmd:         []string{pgBin + "psql", "-h", pgHost, "-U", "postgres", "-qAt", "-c", "select id from seen", "postgres"}, Timeout: 30,
	})
	check(t, err)
	if r.GetExitCode() != 0 {
		t.Fatalf("psql: %s", r.GetStderr())
	}
	have := map[string]bool{}
	for id := range strings.FieldsSeq(string(r.GetStdout())) {
		have[id] = true
	}
	lost := 0
	for _, id := range ids {
		if !have[fmt.Sprint(id)] {
			lost++
		}
	}
	return lost
}
