package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSettings: given ones are written and the daemon is restarted with them, once; those with which it does not start
// are taken back.
func TestSettings(t *testing.T) {
	f := newNode(t)
	file := filepath.Join(f.root, confFile)
	f.sys.deny = func() error {
		if b, _ := os.ReadFile(file); bytes.Contains(b, []byte("nonsense")) {
			return errors.New("systemd says \"failed\"")
		}
		return nil
	}
	is := func(want string) {
		t.Helper()
		if b, err := os.ReadFile(file); err != nil || string(b) != want {
			t.Errorf("settings are %q (%v), want %q", b, err, want)
		}
	}
	const first, second = "quietPeriod = \"1s\"\n", "quietPeriod = \"2s\"\n"
	check(t, f.install(t, true))
	f.opt.Settings = []byte(first)
	check(t, f.install(t, true))
	is(first)
	if !slices.Contains(f.sys.jobs, "restart "+daemon) {
		t.Errorf("jobs: %v", f.sys.jobs)
	}
	check(t, f.install(t, true))
	if len(f.sys.jobs) > 0 {
		t.Errorf("the same settings once more: %v", f.sys.jobs)
	}
	f.opt.Settings = nil
	check(t, f.install(t, true))
	is(first)
	f.opt.Settings = []byte(second)
	check(t, f.install(t, true))
	is(second)

	f.opt.Settings = []byte("nonsense")
	if err := f.install(t, true); err == nil || !strings.Contains(err.Error(), "failed") {
		t.Errorf("nonsense: %v", err)
	}
	is(second)
	if f.sys.run == nil {
		t.Error("the daemon does not run")
	}
}

// TestSettingsNameTheUnit: the units are made for the runtime that the given settings name.
func TestSettingsNameTheUnit(t *testing.T) {
	f := newNode(t)
	f.write(t, "usr/lib/systemd/system/other.service", "[Service]\n")
	f.opt.Settings = []byte("unit = \"other.service\"\n")
	check(t, f.install(t, true))
	b, err := os.ReadFile(filepath.Join(f.root, unitDir, drain))
	if err != nil || !strings.Contains(string(b), "PartOf=other.service") {
		t.Errorf("%v\n%s", err, b)
	}
}
