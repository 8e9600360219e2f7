package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var errCrash = errors.New("crash")

// dies runs act until its step-th change of a file or job of systemd, and tells whether it came that far.
func (f *fixture) dies(t *testing.T, live bool, at int, act func(*Node) error) (name string, died bool) {
	t.Helper()
	steps := 0
	step := func(what string) {
		if steps++; steps >= at {
			name = strings.ReplaceAll(what, f.root, "")
			panic(errCrash)
		}
		if strings.Contains(what, unitDir) {
			f.sys.stale = true // until it is reloaded
		}
	}
	defer func() {
		f.sys.step = nil
		if r := recover(); r != nil {
			if r != any(errCrash) {
				panic(r)
			}
			died = true
		}
	}()
	f.sys.step = step
	check(t, f.do(t, live, func(n *Node) error {
		n.tree.Steps(step)
		return act(n)
	}))
	return "", false
}

// contents is the tree without times.
func (f *fixture) contents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name := range f.tree(t) {
		at := filepath.Join(f.root, name)
		fi, err := os.Lstat(at)
		check(t, err)
		switch {
		case fi.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(at)
			check(t, err)
			out[name] = "-> " + to
		case fi.IsDir():
			out[name] = fi.Mode().String()
		default:
			b, err := os.ReadFile(at)
			check(t, err)
			out[name] = fi.Mode().String() + " " + string(b)
		}
	}
	return out
}

// outdated has an older installation, and a newer daemon to install.
func outdated(t *testing.T, f *fixture) {
	t.Helper()
	check(t, f.install(t, true))
	old := filepath.Join(f.root, unitDir, "quiesce.service")
	check(t, os.WriteFile(old, []byte("[Service]\n"), 0o644))
	f.sys.stale = false
	f.opt.Binary = filepath.Join(t.TempDir(), "quiesce")
	b, err := os.ReadFile(f.opt.Self)
	check(t, err)
	check(t, os.WriteFile(f.opt.Binary, append(b, '\n'), 0o755))
}

// TestCrash ends the installation, an upgrade and the removal at each of their steps: every file is wholly old or new,
// and the same command again ends as it would have.
func TestCrash(t *testing.T) {
	install := func(f *fixture) func(*Node) error {
		return func(n *Node) error { return n.Install(t.Context(), f.opt) }
	}
	remove := func(*fixture) func(*Node) error {
		return func(n *Node) error { return n.Remove(t.Context(), false) }
	}
	for name, tc := range map[string]struct {
		before func(*testing.T, *fixture)
		act    func(*fixture) func(*Node) error
		live   bool
	}{
		"install":             {func(*testing.T, *fixture) {}, install, true},
		"install in an image": {func(*testing.T, *fixture) {}, install, false},
		"upgrade":             {outdated, install, true},
		"remove":              {func(t *testing.T, f *fixture) { check(t, f.install(t, true)) }, remove, true},
	} {
		t.Run(name, func(t *testing.T) {
			whole := newNode(t)
			tc.before(t, whole)
			check(t, whole.do(t, tc.live, tc.act(whole)))
			want := whole.contents(t)
			at := 1
			for ; ; at++ {
				f := newNode(t)
				tc.before(t, f)
				old := f.contents(t)
				step, died := f.dies(t, tc.live, at, tc.act(f))
				if !died {
					break
				}
				where := fmt.Sprintf("dead at step %d, %s", at, step)
				for file, text := range f.contents(t) {
					if text != old[file] && text != want[file] && !strings.Contains(file, ".quiesce-") && filepath.Base(file) != "lock" {
						t.Errorf("%s: %s is neither old nor new", where, file)
					}
				}
				check(t, f.do(t, tc.live, tc.act(f)))
				if diff := cmp.Diff(want, f.contents(t)); diff != "" {
					t.Errorf("%s: then %s", where, diff)
				}
				if tc.live && f.sys.stale {
					t.Errorf("%s: systemd does not know the units", where)
				}
				if tc.live && name != "remove" {
					exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", f.sys.run.Process.Pid))
					if now := filepath.Join(f.root, binDir, "quiesce"); err != nil || exe != now {
						t.Errorf("%s: the daemon runs %s, %v", where, exe, err)
					}
				}
			}
			t.Logf("%d steps", at-1)
		})
	}
}
