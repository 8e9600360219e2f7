package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden shows what one handler more does to a directory. In each file of testdata/golden the part after/ is what
// comes out, with the directory's name replaced.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, want := map[string]string{}, map[string]string{}
	kept := archive.Files[:0:0]
	for _, f := range archive.Files {
		if name, after := strings.CutPrefix(f.Name, "after/"); after {
			want[name] = string(f.Data)
		} else {
			before[f.Name] = string(f.Data)
			kept = append(kept, f)
		}
	}
	dir, path := etc(t, before)
	apply(t, change(t, path, spin))
	got := snapshot(t, dir)
	for name := range got {
		if got[name] == before[name] && name != "config.toml" {
			delete(got, name)
			continue
		}
		got[name] = strings.ReplaceAll(got[name], dir, "/etc/containerd")
	}
	if !*update {
		same(t, "files", want, got)
		return
	}
	for _, name := range sortedKeys(got) {
		kept = append(kept, txtar.File{Name: "after/" + name, Data: []byte(got[name])})
	}
	archive.Files = kept
	if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}
