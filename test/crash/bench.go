package crash

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"quiesce/plugin/stage"
	"quiesce/test/lab"
	"quiesce/test/node"
)

const (
	chaosDir = "/var/lib/quiesce-chaos" // failpoint.Dir
	stageDir = "/var/lib/quiesce"
	confDir  = "/etc/containerd"
	optDir   = "/opt/quiesce"
	shim     = "/usr/local/bin/containerd-shim-runc-v2"
	oneShim  = "/root/containerd-shim-one-v2" // the same with another digest
	slowFile = "/root/slow"                   // how long containerd takes to start, in seconds
)

// slowStart is a drop-in of containerd's unit.
const slowStart = "[Service]\nExecStartPre=/bin/sh -c 'test ! -e " + slowFile + " || sleep $(cat " + slowFile + ")'\n"

// disks are the file systems that a power cut hits.
var disks = []string{stageDir, confDir, optDir}

// Bench is a node on which changes are interrupted, one after the other.
type Bench struct {
	*lab.Lab
	worker   *node.RunningPod // runs to completion, so it is frozen while containerd restarts
	original string           // containerd's config without quiesce's
	pods     int
}

// base is the handler that is live all the time.
const base = "base"

// Boot makes a bench; build are further arguments of go build.
func Boot(ctx context.Context, name string, build ...string) (*Bench, error) {
	l, err := lab.Boot(ctx, lab.Options{
		Name: name, Quiet: 100 * time.Millisecond, Config: "verifyTimeout = '15s'\nundecidedTimeout = '1s'",
		Node: node.Config{
			Disks: disks, Build: append([]string{"-tags", "chaos," + node.Tags}, build...), AllowFailed: []string{"quiesce-apply-boot.service"},
			Programs: map[string]string{"./test/trace": tracer},
			Files:    map[string]node.File{"/etc/systemd/system/containerd.service.d/slow.conf": {Content: slowStart}},
		},
	})
	if err != nil {
		return nil, err
	}
	b := &Bench{Lab: l}
	if err := b.begin(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return b, nil
}

func (b *Bench) begin(ctx context.Context) error {
	text, err := b.ReadFile(confDir + "/config.toml")
	if err != nil {
		return err
	}
	b.original = string(text)
	if _, err := b.Exec(ctx, "sh", "-c", "mkdir -p "+chaosDir+"; cp "+shim+" "+oneShim+"; echo >>"+oneShim); err != nil {
		return err
	}
	if err := b.change(ctx, "install", "--handler", base, "--shim", shim); err != nil {
		return err
	}
	if err := b.Settle(ctx); err != nil {
		return err
	}
	if err := b.ensureWorker(ctx); err != nil {
		return err
	}
	_, err = b.Exec(ctx, append([]string{"sync", "--file-system"}, disks...)...)
	return err
}

func (b *Bench) change(ctx context.Context, args ...string) error {
	_, err := b.Installer(ctx, args...)
	return err
}

// store reads the node's stage from outside.
func (b *Bench) store() (*stage.Store, error) { return stage.Open(b.Path(stageDir)) }

// Settle waits until nothing is pending and no apply runs.
func (b *Bench) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleBudget, fmt.Errorf("not settled within %v", settleBudget))
	defer cancel()
	var state string
	err := b.Until(ctx, "everything is settled", func(ctx context.Context) (bool, error) {
		s, err := b.store()
		if err != nil {
			state = err.Error()
			return false, nil
		}
		defer s.Close()
		pending, perr := s.Pending()
		j, jerr := s.Journal()
		if state = fmt.Sprintf("%d entries, journal %+v, %v, locked %v", len(pending), j, errors.Join(perr, jerr), s.Locked()); perr != nil || jerr != nil {
			return false, nil
		}
		return len(pending) == 0 && !s.Interrupted() && !s.Locked(), nil
	})
	if err != nil {
		return fmt.Errorf("%w (%s)", err, state)
	}
	return b.idle(ctx)
}

const settleBudget = 3 * time.Minute // each entry that containerd does not start with costs a verifyTimeout

// idle waits until apply's unit and the daemon are what they are when nothing happens.
func (b *Bench) idle(ctx context.Context) error {
	var out string
	err := b.Until(ctx, "the units are idle", func(ctx context.Context) (bool, error) {
		var err error
		out, err = b.Exec(ctx, "systemctl", "show", "--value", "-p", "ActiveState", "quiesce-apply.service", "quiesce.service", "containerd.service")
		f := strings.Fields(out)
		return err == nil && len(f) == 3 && f[0] != "activating" && f[0] != "deactivating" && f[1] == "active" && f[2] == "active", nil
	})
	if err != nil {
		return fmt.Errorf("%w (%q)", err, out)
	}
	return b.WaitCRI(ctx)
}

// live lists the handlers that the stage says are live.
func (b *Bench) live() ([]string, error) {
	s, err := b.store()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	current, err := s.Current()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range stage.Live(current) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// ensureWorker starts the pod that runs on and on, if there is none.
func (b *Bench) ensureWorker(ctx context.Context) error {
	if b.worker != nil {
		return nil
	}
	b.pods++
	p, err := b.StartPod(ctx, node.Pod{Name: fmt.Sprintf("worker-%d", b.pods), Grace: time.Second, Labels: node.JobLabels("worker"), Containers: []node.Container{node.Shell("while :; do sleep 1; done")}})
	if err != nil {
		return err
	}
	b.worker = p
	return nil
}

// put writes a file for the failpoints.
func (b *Bench) put(name, text string) error {
	return b.WriteFile(path.Join(chaosDir, name), []byte(text), 0o600)
}

// got reads one; empty if it is not there.
func (b *Bench) got(name string) string {
	text, err := b.ReadFile(path.Join(chaosDir, name))
	if err != nil {
		return ""
	}
	return string(text)
}
