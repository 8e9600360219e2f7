package config

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spin and kata are two handlers that use everything a handler can have.
var (
	spin = Handler{
		Name: "spin", Type: "io.containerd.spin.v2", Entry: "install-spin-0001",
		Options:  map[string]any{"ConfigPath": `C:\a "b" 'c'` + "\n[x]", "nested": map[string]any{"dotted.key": []any{"a", "b"}}, "n": int64(7)},
		Settings: map[string]any{"snapshotter": "overlayfs", "pod_annotations": []any{"a.*", "b"}, "privileged_without_host_devices": true},
	}
	kata = Handler{Name: "kata-qemu", Type: "/opt/quiesce/shims/kata/containerd-shim-kata-v2", Entry: "install-kata-0002"}
)

// etc is a directory like /etc/containerd with files in it, and the path of its root config.
func etc(tb testing.TB, files map[string]string) (dir, path string) {
	tb.Helper()
	dir = filepath.Join(tb.TempDir(), "containerd")
	mkdir(tb, dir)
	for name, data := range files {
		mkdir(tb, filepath.Dir(filepath.Join(dir, name)))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, "config.toml")
}

func mkdir(tb tester, dir string) {
	tb.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
}

func read(tb testing.TB, path string) *Config {
	tb.Helper()
	c, err := Read(Place{Root: path})
	if err != nil {
		tb.Fatalf("Read: %v", err)
	}
	return c
}

func change(tb testing.TB, path string, want ...Handler) []Change {
	tb.Helper()
	changes, err := read(tb, path).Change(want)
	if err != nil {
		tb.Fatalf("Change: %v", err)
	}
	return changes
}

// apply does what the caller of this package does, without the care for crashes.
func apply(tb tester, changes []Change) {
	tb.Helper()
	for _, ch := range changes {
		if !strings.HasPrefix(ch.Path, os.TempDir()+"/") {
			tb.Fatalf("%s: no test may write there", ch.Path)
		}
		old, err := os.ReadFile(ch.Path)
		if (err == nil) != (ch.Old != nil) || !bytes.Equal(old, ch.Old) {
			tb.Fatalf("%s: Old is %q, on disk is %q (%v)", ch.Path, ch.Old, old, err)
		}
		if ch.New == nil {
			if err := os.Remove(ch.Path); err != nil {
				tb.Fatal(err)
			}
			continue
		}
		mkdir(tb, filepath.Dir(ch.Path))
		if err := os.WriteFile(ch.Path, ch.New, ch.Mode); err != nil {
			tb.Fatal(err)
		}
	}
}

// snapshot is every file below dir.
func snapshot(tb tester, dir string) map[string]string {
	tb.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(data)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return files
}

// load is containerd's own loader on the files as they lie there: the oracle.
func load(tb testing.TB, path string) map[string]any {
	tb.Helper()
	tree, err := loadTree(tb.Context(), path)
	if err != nil {
		tb.Fatalf("containerd's loader: %v", err)
	}
	return tree
}

func same(tb testing.TB, what string, want, got any) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}
