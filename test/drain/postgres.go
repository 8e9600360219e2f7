package drain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"quiesce/test/node"
)

const (
	pgBin   = "/usr/lib/postgresql/15/bin/"
	pgImage = "localhost/postgres:1"
	pgHost  = "10.99.0.1"
	pgData  = "/var/lib/pg"
)

// PostgresImage is Debian's PostgreSQL with the libraries it needs, taken from this machine; it is installed if need be.
// The files of the image that this machine lacks are made in dir.
func PostgresImage(ctx context.Context, dir string) (node.Image, error) {
	img := node.Image{Name: pgImage, Files: map[string]string{}}
	if err := node.InstallPackages(ctx, pgBin+"postgres", "postgresql-15"); err != nil {
		return img, err
	}
	var programs []string
	for _, p := range []string{"postgres", "initdb", "psql", "pgbench", "pg_controldata"} {
		img.Files[pgBin+p] = pgBin + p
		programs = append(programs, pgBin+p)
	}
	for _, dir := range []string{"/usr/lib/postgresql/15/lib", "/usr/share/postgresql/15"} {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.Contains(p, "bitcode") && !strings.Contains(p, "/man/") {
				img.Files[p] = p
				if strings.HasSuffix(p, ".so") {
					programs = append(programs, p)
				}
			}
			return err
		})
		if err != nil {
			return img, fmt.Errorf("find files of PostgreSQL: %w", err)
		}
	}
	for _, p := range []string{"UTC", "GMT"} {
		img.Files["/usr/share/zoneinfo/"+p] = "/usr/share/zoneinfo/" + p
	}
	libraries(ctx, img.Files, programs)
	passwd := filepath.Join(dir, "passwd")
	img.Files["/etc/passwd"] = passwd
	return img, os.WriteFile(passwd, []byte("root:x:0:0:root:/root:/bin/sh\npostgres:x:999:999:p:/data:/bin/sh\n"), 0o644)
}

// libraries adds what programs are linked with.
func libraries(ctx context.Context, files map[string]string, programs []string) {
	for _, p := range programs {
		out, err := exec.CommandContext(ctx, "ldd", p).Output()
		if err != nil {
			continue // needs what only its server has
		}
		for field := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(field, "/") {
				files[field] = field
			}
		}
	}
}

// Way is a way to stop the services of a node under a database.
type Way struct {
	Name  string
	Clean bool   // the database is to end cleanly
	Stop  string // script
}

// pauseAndKill is what microk8s does to all containers.
const pauseAndKill = `tasks() { ctr -n k8s.io tasks ls -q; }
for c in $(tasks); do ctr -n k8s.io tasks pause $c; done
for c in $(tasks); do ctr -n k8s.io tasks kill -s SIGKILL $c || true; ctr -n k8s.io tasks resume $c || true; done
`

// Ways are that of quiesce, and what people have today on nodes without it.
func Ways() []Way {
	return []Way{
		{Name: "quiesce", Clean: true, Stop: "systemctl stop containerd"},
		// As k3s-killall.sh does: the service first, which leaves pods alone, then SIGKILL to the trees of the shims.
		{Name: "killall", Stop: `systemctl stop containerd
tree() { for p; do echo $p; tree $(pgrep -P $p); done; }
kill -KILL $(tree $(pgrep -x containerd-shim)) 2>/dev/null || true`},
		// As microk8s' stop does: every task is paused, then killed; then the service.
		{Name: "pause_and_kill", Stop: pauseAndKill + "systemctl stop containerd"},
	}
}

// Ending is what became of the database.
type Ending struct {
	Clean     bool `json:"clean_shutdown"`
	Recovery  bool `json:"recovery_at_next_start"`
	Committed int  `json:"committed_rows"` // rows whose commit the client saw
	Lost      int  `json:"lost_rows"`      // of these
}

// Stop stops the node's services in a way, starts them and the database anew, and counts.
func (d *Database) Stop(ctx context.Context, w Way, keep Keep) (e Ending, err error) {
	if _, err := script(ctx, d.lab, w.Stop); err != nil {
		return e, err
	}
	committed := d.Seen()
	e.Committed = len(committed)
	before := d.Log()
	e.Clean = strings.HasSuffix(strings.TrimSpace(before), "database system is shut down")
	control, err := exec.CommandContext(ctx, pgBin+"pg_controldata", "-D", d.lab.Path(pgData+"/db")).Output()
	if err != nil {
		return e, fmt.Errorf("read control file of PostgreSQL: %w", err)
	}
	if clean := strings.Contains(string(control), "Database cluster state:               shut down\n"); clean != e.Clean {
		return e, fmt.Errorf("stop PostgreSQL: its log says clean %v, its control file %v", e.Clean, clean)
	}
	if err := d.Again(ctx); err != nil {
		return e, err
	}
	after := d.Log()
	e.Recovery = strings.Contains(after, "automatic recovery in progress")
	if e.Lost, err = d.Missing(ctx, committed); err != nil {
		return e, err
	}
	seen, _ := d.lab.ReadFile(commits)
	name := "postgres-" + w.Name
	return e, errors.Join(keep.keep(name+".before.log", []byte(before)), keep.keep(name+".after.log", []byte(after)),
		keep.keep(name+".control.txt", control), keep.keep(name+".commits", seen))
}
