package stage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLabels(t *testing.T) {
	shim := Manifest{Handlers: []Handler{{Name: "spin-v2"}, {Name: strings.Repeat("x", 60)}}, Files: []File{{Name: "containerd-shim-spin-v2", Mode: 0o755, SHA256: "ab"}}}
	plain := Manifest{Handlers: []Handler{{Name: "mine"}}}
	live := Live([]Entry{{Manifest: shim}, {Manifest: plain}})
	want := "quiesce-handler.mine=true\nquiesce-handler.spin-v2=true\nquiesce-version.spin-v2=" + shim.Version() + "\n"
	if got := string(Labels(live)); got != want {
		t.Errorf("labels:\n%swant:\n%s", got, want)
	}
}

// TestWriteLabels: the file follows what is live, is not touched when nothing changed, and goes when it is switched off.
func TestWriteLabels(t *testing.T) {
	dir, root := filepath.Join(t.TempDir(), "stage"), t.TempDir()
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file := filepath.Join(root, LabelsFile)
	write := func(wanted bool) string {
		t.Helper()
		if err := s.WriteLabels(root, wanted); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		return string(b)
	}
	if got := write(true); got != "" {
		t.Errorf("nothing is live: %q", got)
	}
	m := Manifest{Schema: Schema, ID: NewID(Install, "mine"), Op: Install, Created: time.Now().UTC(), Handlers: []Handler{{Name: "mine", RuntimeType: "io.containerd.runc.v2"}}}
	if err := s.store.Mkdir("cur/"+m.ID, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.store.writeJSON("cur/"+m.ID+"/manifest.json", m, 0o600); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(filepath.Dir(file), ".quiesce-half") // of a daemon that died
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(half, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := write(true); got != "quiesce-handler.mine=true\n" {
		t.Errorf("one handler is live: %q", got)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what was being written is still there")
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	write(true)
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("the same labels were written again (%v)", err)
	}
	if got := write(false); got != "" {
		t.Errorf("switched off: %q", got)
	}
}
