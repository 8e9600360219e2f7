package apply

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"quiesce/plugin/stage"
)

// edits are what is done to a config, one after the other, and what it is at first.
var edits = map[string]struct{ version, config string }{
	"in place":         {"1.7.35", "# mine\r\nversion = 2\r\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\r\ndefault_runtime_name = 'runc'"},
	"in place, adopt":  {"1.7.35", "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.b]\nruntime_type = 'io.containerd.b.v1'\n"},
	"drop-ins":         {"2.4.2", original},
	"drop-ins, adopt":  {"2.4.2", "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.b]\nruntime_type = 'io.containerd.b.v1'"},
	"there was no one": {"1.7.35", ""},
}

// TestConfig_e_CrashInAnEdit lets apply die at each step of every edit: each file of the config is wholly old or wholly
// new then, and the end is as if it had not died: at last every byte is the original one.
func TestConfig_e_CrashInAnEdit(t *testing.T) {
	t.Parallel()
	for name, e := range edits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := strides(t)
			for nth := range 3 {
				for at := 1; dieInEdit(t, e.version, e.config, nth, at); at += next() {
				}
			}
		})
	}
}

// dieInEdit dies in the nth edit at a step; false: it has no such step.
func dieInEdit(t *testing.T, version, config string, nth, at int) bool {
	t.Helper()
	m := newMachine(t)
	defer func() { check(t, os.RemoveAll(m.dir)) }()
	m.version = version
	if config == "" {
		check(t, os.Remove(m.path("etc/config.toml")))
	} else {
		check(t, os.WriteFile(m.path("etc/config.toml"), []byte(config), 0o640))
	}
	original := m.etc()
	b := manifest(stage.Install, "b", "b")
	b.Handlers[0].Adopt = true
	died := false
	for i, man := range []stage.Manifest{manifest(stage.Install, "a", "a"), b, manifest(stage.Remove, "none", "a", "b")} {
		m.stage(man)
		if i != nth {
			check(t, m.run())
			continue
		}
		old := m.etc()
		m.steps, m.crashAt = nil, at
		if died = m.dies(m.run); !died {
			return false
		}
		where := fmt.Sprintf("edit %d dead at step %d, %s", nth, at, m.steps[at-1])
		crashed := m.etc()
		for range stage.MaxAttempts {
			check(t, m.run())
		}
		m.settled(where)
		for path, now := range m.etc() {
			if got := crashed[path]; got != old[path] && got != now {
				t.Errorf("%s: %s was neither old nor new: %q", where, path, got)
			}
		}
	}
	if end := m.etc(); !slices.Equal(sorted(end), sorted(original)) || end["config.toml"] != original["config.toml"] {
		t.Errorf("edit %d, step %d: the config is not the original one: %q", nth, at, end)
	}
	return died
}

// etc is every file of the config's directory, half-written ones left out.
func (m *machine) etc() map[string]string {
	files := map[string]string{}
	root, err := os.OpenRoot(m.path("etc"))
	check(m.t, err)
	defer root.Close()
	for _, dir := range []string{".", "conf.d"} {
		list, _ := os.ReadDir(m.path("etc/" + dir)) // it may not be there
		for _, item := range list {
			if item.IsDir() || strings.HasPrefix(item.Name(), ".quiesce-") {
				continue
			}
			name := strings.TrimPrefix(dir+"/"+item.Name(), "./")
			data, err := root.ReadFile(name)
			check(m.t, err)
			files[name] = string(data)
		}
	}
	return files
}
