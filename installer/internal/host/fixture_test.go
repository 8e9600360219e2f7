package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// systemd is a stand-in: it runs the daemon's program and remembers the jobs.
type systemd struct {
	t     *testing.T
	root  string
	jobs  []string
	stale bool
	fail  error
	run   *exec.Cmd
	drain bool              // quiesce-drain.service is active
	step  func(what string) // before each job; nil: nothing
	deny  func() error      // why the daemon does not start; nil: it does
}

func (s *systemd) before(job string) {
	if s.step != nil {
		s.step(job)
	}
}

func (s *systemd) State(_ context.Context, unit string) (State, error) {
	st := State{Active: "inactive", Stale: s.stale}
	if unit == daemon && s.run != nil {
		st.Active, st.PID = "active", s.run.Process.Pid
	}
	if unit == drain && s.drain {
		st.Active = "active"
	}
	return st, nil
}

func (s *systemd) Reload(context.Context) error {
	s.before("reload")
	s.jobs, s.stale = append(s.jobs, "reload"), false
	return s.fail
}

func (s *systemd) Run(_ context.Context, job Job, unit string) error {
	s.before(string(job))
	s.jobs = append(s.jobs, string(job)+" "+unit)
	if unit == drain {
		s.drain = job != Stop
		return nil
	}
	if s.run != nil {
		_ = s.run.Process.Kill()
		_ = s.run.Wait()
		s.run = nil
	}
	if job == Stop {
		return nil
	}
	if s.deny != nil {
		if err := s.deny(); err != nil {
			return err
		}
	}
	s.run = exec.CommandContext(s.t.Context(), filepath.Join(s.root, binDir, "quiesce"), "600")
	return s.run.Start()
}

type fixture struct {
	root string
	sys  *systemd
	opt  Options
	said []string
}

// newNode makes the root of a node on which containerd.service is known and systemd runs.
func newNode(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("only root can run this test: it writes files owned by root")
	}
	f := &fixture{root: t.TempDir()}
	for _, dir := range []string{unitDir, "usr/lib/systemd/system", "run/systemd/system", linkDir, "opt", "var/lib"} {
		check(t, os.MkdirAll(filepath.Join(f.root, dir), 0o755))
	}
	f.write(t, "usr/lib/systemd/system/containerd.service", "[Service]\n")
	check(t, os.Symlink("/proc", filepath.Join(f.root, "proc")))
	program, err := exec.LookPath("sleep")
	check(t, err)
	f.opt = Options{Binary: program, Self: program}
	f.sys = &systemd{t: t, root: f.root}
	t.Cleanup(func() {
		if f.sys.run != nil {
			_ = f.sys.run.Process.Kill()
			_ = f.sys.run.Wait()
		}
	})
	return f
}

func (f *fixture) write(t *testing.T, name, text string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(filepath.Join(f.root, name)), 0o755))
	check(t, os.WriteFile(filepath.Join(f.root, name), []byte(text), 0o644))
}

func (f *fixture) do(t *testing.T, live bool, act func(*Node) error) error {
	t.Helper()
	var units Units
	if live {
		units = f.sys
	}
	f.said, f.sys.jobs = nil, nil
	n, err := Open(f.root, units, func(s string) { f.said = append(f.said, s) })
	check(t, err)
	defer n.Close()
	return act(n)
}

func (f *fixture) install(t *testing.T, live bool) error {
	t.Helper()
	return f.do(t, live, func(n *Node) error { return n.Install(t.Context(), f.opt) })
}

func (f *fixture) remove(t *testing.T, live bool) error {
	t.Helper()
	return f.do(t, live, func(n *Node) error { return n.Remove(t.Context(), false) })
}

// tree lists the root's files with mode, owner, time of change and content.
func (f *fixture) tree(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	check(t, filepath.WalkDir(f.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(f.root, path)
		switch {
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			out[rel] = "-> " + to + fi.ModTime().String()
			return err
		case d.IsDir():
			out[rel] = fi.Mode().String()
			return nil
		}
		b, err := os.ReadFile(path)
		out[rel] = fmt.Sprint(fi.Mode(), fi.ModTime(), string(b))
		return err
	}))
	return out
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
