package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestHandlers(t *testing.T) {
	dir, path := etc(t, map[string]string{"conf.d/quiesce-other.toml": "# not ours\n"})
	apply(t, change(t, path, spin, kata))
	got, err := read(t, path).Handlers()
	if err != nil {
		t.Fatal(err)
	}
	want := []Installed{
		{Handler: kata, Path: filepath.Join(dir, "conf.d/quiesce-kata-qemu.toml"), Intact: true},
		{Handler: spin, Path: filepath.Join(dir, "conf.d/quiesce-spin.toml"), Intact: true},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Installed{})); diff != "" {
		t.Fatalf("handlers (-want +got):\n%s", diff)
	}
	if changes := change(t, path, got[0].Handler, got[1].Handler); len(changes) != 0 {
		t.Fatalf("what is read back renders differently: %+v", changes)
	}
}

// TestEdited has drop-ins of ours that somebody changed, or broke: they are known as ours, and mended.
func TestEdited(t *testing.T) {
	for name, edit := range map[string]string{"changed": "\n# more\n", "broken": "[x\n"} {
		t.Run(name, func(t *testing.T) {
			_, path := etc(t, map[string]string{"config.toml": "version = 3\n"})
			apply(t, change(t, path, spin))
			c := read(t, path)
			file := filepath.Join(c.ownDir(), "quiesce-spin.toml")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, append(data, edit...), 0o600); err != nil {
				t.Fatal(err)
			}
			c = read(t, path)
			got, err := c.Handlers()
			if err != nil || len(got) != 1 || got[0].Intact || got[0].Entry != spin.Entry || got[0].Name != spin.Name {
				t.Fatalf("handlers: %+v, %v", got, err)
			}
			changes := change(t, path, spin)
			if len(changes) != 1 {
				t.Fatalf("changes: %+v", changes)
			}
			if err := Check(t.Context(), program(t), c, changes, []Handler{spin}, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestForeign(t *testing.T) {
	dir, path := etc(t, map[string]string{
		"config.toml":    "version = 2\nimports = ['a/*.toml']\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.root]\n",
		"a/one.toml":     "imports = ['../b.toml']\n[plugins.'io.containerd.grpc.v1.cri'.Containerd.Runtimes.one]\n",
		"b.toml":         "imports = ['config.toml']\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.two]\n",
		"conf.d/no.toml": "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.not-imported]\n",
	})
	apply(t, change(t, path, spin))
	c := read(t, path)
	for name, want := range map[string]string{"root": "config.toml", "one": "a/one.toml", "two": "b.toml", "not-imported": "", "spin": "", "Root": ""} {
		where, ok := c.Foreign(name)
		if ok != (want != "") || want != "" && where != filepath.Join(dir, want) {
			t.Errorf("Foreign(%q) = %q, %v; want %q", name, where, ok, want)
		}
	}
	if where, ok := c.Foreign("runc"); !ok || !strings.Contains(where, "built-in") {
		t.Errorf("Foreign(runc) = %q, %v", where, ok)
	}
}

// TestNotOurs never overwrites a file with a name of ours that somebody else wrote.
func TestNotOurs(t *testing.T) {
	dir, path := etc(t, map[string]string{"conf.d/quiesce-spin.toml": "# mine\n"})
	if _, err := read(t, path).Change([]Handler{spin}); err == nil {
		t.Fatal("no error")
	}
	if changes := change(t, path); len(changes) != 0 {
		t.Fatalf("changes: %+v", changes)
	}
	same(t, "files", map[string]string{"conf.d/quiesce-spin.toml": "# mine\n"}, snapshot(t, dir))
}

func TestReadOdd(t *testing.T) {
	_, path := etc(t, nil)
	mkdir(t, path)
	if _, err := Read(Place{Root: path}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	_, path = etc(t, map[string]string{"config.toml": "imports = ['a.toml']\n", "a.toml": "x = [\n"})
	if _, err := Read(Place{Root: path}); err == nil || !strings.Contains(err.Error(), "a.toml:1: ") {
		t.Errorf("a broken import: %v", err)
	}
	_, path = etc(t, map[string]string{"config.toml": "imports = ['[*']\n"})
	if _, err := Read(Place{Root: path}); err == nil || !strings.Contains(err.Error(), "config.toml:1: ") {
		t.Errorf("a bad pattern: %v", err)
	}
}

func TestReleases(t *testing.T) {
	for version, want := range map[string]release{
		"2.4.2": {2, 4}, "v2.0.0-rc.1": {2, 0}, "2.1.5-k3s1": {2, 1}, "3.0": {3, 0}, " 2.3.4+unknown\n": {2, 3},
		"1.7.27": {1, 7}, "v1.6.36": {1, 6}, "1.7.35~ds1": {1, 7}, "1.5.2": {}, "": {2, 4}, "x.y": {}, "2": {}, "2.x": {},
	} {
		got, err := parseRelease(version)
		if (err == nil) != (want != release{}) || err == nil && got != want {
			t.Errorf("parseRelease(%q) = %v, %v", version, got, err)
		}
	}
}
