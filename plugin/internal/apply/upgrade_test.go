package apply

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quiesce/plugin/stage"
)

// upgrades is a machine whose shims can be run.
type upgrades struct{ *machine }

func newUpgrades(t *testing.T) upgrades {
	t.Helper()
	m := newMachineIn(t, t.TempDir()) // what is in memory may not be executable
	sleep, err := exec.LookPath("sleep")
	check(t, err)
	m.exe, err = os.ReadFile(sleep)
	check(t, err)
	return upgrades{m}
}

// put makes an entry live whose shim is that of the release.
func (u upgrades) put(id, release string, options map[string]any) {
	u.t.Helper()
	man := manifest(stage.Install, id, "a")
	man.Owner.Pod, man.Handlers[0].Options = release, options
	u.machine.stage(man)
	check(u.t, u.run())
	u.wantPhase(id, stage.IsLive, "")
}

// live is the shim that the config names.
func (u upgrades) live() string {
	u.t.Helper()
	conf, err := os.ReadFile(u.path("etc/conf.d/quiesce-a.toml"))
	check(u.t, err)
	_, rest, ok := strings.Cut(string(conf), u.path("shims")+"/")
	version, _, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		u.t.Fatalf("the config names no shim:\n%s", conf)
	}
	return u.path("shims/" + version + "/containerd-shim-x-v1")
}

// pod runs a shim until it is told to end.
func (u upgrades) pod(shim string) (end func()) {
	u.t.Helper()
	c := exec.Command(shim, "3600")
	c.Args[0] = "sleep"
	check(u.t, c.Start())
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	u.t.Cleanup(end)
	return end
}

// wantShims checks that exactly these shims are there, whole.
func (u upgrades) wantShims(releases map[string]string) {
	u.t.Helper()
	there, err := filepath.Glob(u.path("shims/*/*"))
	check(u.t, err)
	if len(there) != len(releases) {
		u.t.Errorf("shims %v, want %v", there, releases)
	}
	for path, release := range releases {
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, slices.Concat(u.exe, []byte(release))) {
			u.t.Errorf("%s is not release %s: %v", path, release, err)
		}
	}
}

func (u upgrades) wantUnused(shims ...string) {
	u.t.Helper()
	a, done := u.apply()
	defer done()
	got, err := Unused(a.Store, a.Shims)
	check(u.t, err)
	var want []string
	for _, s := range shims {
		want = append(want, filepath.Base(filepath.Dir(s)))
	}
	if !slices.Equal(got, want) {
		u.t.Errorf("unused: %v, want %v", got, want)
	}
}

// The new version comes beside the old one, which stays as long as a process runs it; and the same way back.
func TestUpgrade(t *testing.T) {
	u := newUpgrades(t)
	u.put("one", "1", nil)
	v1 := u.live()
	end1 := u.pod(v1)

	u.put("two", "2", nil)
	v2 := u.live()
	u.want([]string{"a", "runc"}, 2)
	if v1 == v2 {
		t.Fatal("both versions are", v1)
	}
	u.wantShims(map[string]string{v1: "1", v2: "2"})
	u.wantUnused()
	check(t, u.run())
	u.wantShims(map[string]string{v1: "1", v2: "2"})

	end2 := u.pod(v2)
	end1()
	u.wantUnused(v1)
	check(t, u.run()) // as the daemon has it run, for no entry
	u.wantShims(map[string]string{v2: "2"})

	u.put("back", "1", nil)
	if u.live() != v1 {
		t.Errorf("after the downgrade the config names %s, not %s", u.live(), v1)
	}
	u.wantShims(map[string]string{v1: "1", v2: "2"})
	end2()
	check(t, u.run())
	u.wantShims(map[string]string{v1: "1"})
	u.want([]string{"a", "runc"}, 3)
}

// Other options of the same shim are an edit: the shim's file is not touched.
func TestOtherOptions(t *testing.T) {
	u := newUpgrades(t)
	u.put("one", "1", nil)
	shim := u.live()
	before, err := os.Stat(shim)
	check(t, err)
	u.put("two", "1", map[string]any{"SystemdCgroup": true})
	u.want([]string{"a", "runc"}, 2)
	after, err := os.Stat(shim)
	check(t, err)
	if u.live() != shim || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("the shim was placed again")
	}
	if conf, err := os.ReadFile(u.path("etc/conf.d/quiesce-a.toml")); err != nil || !strings.Contains(string(conf), "SystemdCgroup = true") {
		t.Errorf("the config is %s, %v", conf, err)
	}
	u.put("three", "1", nil)
	if conf, err := os.ReadFile(u.path("etc/conf.d/quiesce-a.toml")); err != nil || strings.Contains(string(conf), "SystemdCgroup") {
		t.Errorf("the option is still there: %s, %v", conf, err)
	}
	u.wantShims(map[string]string{shim: "1"})
}
