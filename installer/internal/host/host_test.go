package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInstallOnARunningNode(t *testing.T) {
	f := newNode(t)
	before := f.tree(t)
	check(t, f.install(t, true))
	if want := []string{"reload", "restart quiesce.service", "restart quiesce-drain.service"}; !slices.Equal(f.sys.jobs, want) {
		t.Errorf("jobs: %v, want %v", f.sys.jobs, want)
	}
	if _, err := os.Stat(filepath.Join(f.root, booted)); err != nil {
		t.Error("the boot unit could run against a running containerd:", err)
	}
	first := f.tree(t)
	check(t, f.install(t, true))
	if diff := cmp.Diff(first, f.tree(t)); diff != "" || len(f.sys.jobs) > 0 || !slices.Equal(f.said, []string{"already in order"}) {
		t.Errorf("the second time: jobs %v, said %v, changed %s", f.sys.jobs, f.said, diff)
	}
	check(t, f.remove(t, true))
	if want := []string{"stop quiesce-drain.service", "stop quiesce.service", "reload"}; !slices.Equal(f.sys.jobs, want) {
		t.Errorf("jobs: %v, want %v", f.sys.jobs, want)
	}
	if diff := cmp.Diff(before, f.tree(t)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestInstallInAnImage(t *testing.T) {
	f := newNode(t)
	check(t, os.RemoveAll(filepath.Join(f.root, "run")))
	before := f.tree(t)
	check(t, f.install(t, false))
	if _, err := os.Stat(filepath.Join(f.root, "run")); err == nil {
		t.Error("something was written to /run of an image")
	}
	first := f.tree(t)
	check(t, f.install(t, false))
	if diff := cmp.Diff(first, f.tree(t)); diff != "" {
		t.Errorf("the second time changed %s", diff)
	}
	check(t, f.remove(t, false))
	if diff := cmp.Diff(before, f.tree(t)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestRestartsOnlyWhatChanged(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, f *fixture)
		jobs   []string
	}{
		"new program": {func(t *testing.T, f *fixture) {
			f.opt.Binary = filepath.Join(t.TempDir(), "quiesce")
			sleep, err := os.ReadFile(f.opt.Self)
			check(t, err)
			check(t, os.WriteFile(f.opt.Binary, append(sleep, '\n'), 0o755))
		}, []string{"restart quiesce.service"}},
		"program replaced before a crash": {func(t *testing.T, f *fixture) {
			at := filepath.Join(f.root, binDir, "quiesce")
			b, err := os.ReadFile(at)
			check(t, err)
			check(t, os.Remove(at))
			check(t, os.WriteFile(at, b, 0o755))
		}, []string{"restart quiesce.service"}},
		"unit of the daemon": {func(t *testing.T, f *fixture) {
			f.write(t, unitDir+"/quiesce.service", "[Service]\n")
		}, []string{"reload", "restart quiesce.service"}},
		"unit of apply": {func(t *testing.T, f *fixture) {
			f.write(t, unitDir+"/quiesce-apply.service", "[Service]\n")
		}, []string{"reload"}},
		"units not read before a crash": {func(_ *testing.T, f *fixture) {
			f.sys.stale = true
		}, []string{"reload", "restart quiesce.service"}},
		"the installer itself": {func(t *testing.T, f *fixture) {
			f.write(t, binDir+"/quiesce-installer", "old")
		}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newNode(t)
			check(t, f.install(t, true))
			tt.change(t, f)
			check(t, f.install(t, true))
			if !slices.Equal(f.sys.jobs, tt.jobs) {
				t.Errorf("jobs: %v, want %v", f.sys.jobs, tt.jobs)
			}
		})
	}
}

func TestRefusalsWriteNothing(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, f *fixture)
		live   bool
		want   string
	}{
		"no systemd":         {func(t *testing.T, f *fixture) { check(t, os.RemoveAll(filepath.Join(f.root, "etc"))) }, false, "not a node with systemd"},
		"systemd not up":     {func(t *testing.T, f *fixture) { check(t, os.RemoveAll(filepath.Join(f.root, "run"))) }, true, "use --root"},
		"no such unit":       {func(_ *testing.T, f *fixture) { f.opt.Unit = "k3s.service" }, true, "no unit k3s.service"},
		"not a unit":         {func(_ *testing.T, f *fixture) { f.opt.Unit = "a b" }, false, "not the name of a service unit"},
		"no program":         {func(_ *testing.T, f *fixture) { f.opt.Binary = "/nowhere/quiesce" }, false, "--binary"},
		"program is no file": {func(_ *testing.T, f *fixture) { f.opt.Binary = "/" }, false, "--binary"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newNode(t)
			tt.change(t, f)
			before := f.tree(t)
			if err := f.install(t, tt.live); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error: %v, want %q", err, tt.want)
			}
			if diff := cmp.Diff(before, f.tree(t)); diff != "" {
				t.Errorf("changed %s", diff)
			}
		})
	}
}

// A node that was left in the middle, anywhere, is put in order by the same command.
func TestInstallAfterACrash(t *testing.T) {
	whole := newNode(t)
	check(t, whole.install(t, false))
	names := func(f *fixture) (out []string) {
		for name := range f.tree(t) {
			out = append(out, name)
		}
		slices.Sort(out)
		return out
	}
	want := names(whole)
	for _, cut := range []string{"etc/quiesce", "opt/quiesce/bin/quiesce", "var/lib/quiesce/store", unitDir + "/quiesce.service", unitDir + "/containerd.service.wants"} {
		t.Run(cut, func(t *testing.T) {
			f := newNode(t)
			check(t, f.install(t, false))
			check(t, os.RemoveAll(filepath.Join(f.root, cut)))
			check(t, f.install(t, false))
			if diff := cmp.Diff(want, names(f)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOthersFilesStay(t *testing.T) {
	f := newNode(t)
	f.write(t, linkDir+"/quiesce", "someone else's")
	f.write(t, unitDir+"/multi-user.target.wants/other.service", "")
	f.write(t, confFile, "quietPeriod = \"9s\"\n")
	before := f.tree(t)
	check(t, f.install(t, false))
	if !slices.ContainsFunc(f.said, func(s string) bool { return strings.Contains(s, "not ours") }) {
		t.Errorf("said %q", f.said)
	}
	check(t, f.remove(t, false))
	if diff := cmp.Diff(before, f.tree(t)); diff != "" {
		t.Errorf("changed %s", diff)
	}
}

func TestRemoveRefusesAStageThatIsNotWhole(t *testing.T) {
	f := newNode(t)
	check(t, f.install(t, false))
	f.write(t, stageDir+"/store/cur/install-x/manifest.json", "{}")
	check(t, os.RemoveAll(filepath.Join(f.root, stageDir, "results")))
	if err := f.remove(t, false); err == nil || !strings.Contains(err.Error(), "install-x") {
		t.Errorf("error: %v", err)
	}
	check(t, f.install(t, false)) // repairs the stage; the entry, which nobody can read, still holds it
	if err := f.remove(t, false); err == nil || !strings.Contains(err.Error(), "install-x") {
		t.Errorf("error: %v", err)
	}
}

func TestAJobThatFailsIsTold(t *testing.T) {
	f := newNode(t)
	f.sys.fail = context.DeadlineExceeded
	if err := f.install(t, true); err == nil {
		t.Error("no error")
	}
	f.sys.fail = nil
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, f.do(t, true, func(n *Node) error { return n.Install(ctx, f.opt) }))
	if want := "restart quiesce.service"; !slices.Contains(f.sys.jobs, want) {
		t.Errorf("jobs: %v, want %s", f.sys.jobs, want)
	}
}
