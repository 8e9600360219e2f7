package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNRIIsTurnedOn where it is off because nobody says anything of it, and goes with the last handler.
func TestNRIIsTurnedOn(t *testing.T) {
	const root = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n  runtime_type = \"io.containerd.runc.v2\"\n"
	for name, tc := range map[string]struct {
		root, version string
		ask, want     bool
	}{
		"asked":             {root, "1.7.35", true, true},
		"not asked":         {root, "1.7.35", false, false},
		"on by default":     {root, "2.1.5", true, false},
		"the file says off": {root + "[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = true\n", "1.7.35", true, false},
		"there is none":     {root, "1.6.36", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.toml")
			if err := os.WriteFile(path, []byte(tc.root), 0o644); err != nil {
				t.Fatal(err)
			}
			at := Place{Root: path, Version: tc.version, NRI: tc.ask}
			apply := func(want ...Handler) []byte {
				c, err := Read(at)
				if err != nil {
					t.Fatal(err)
				}
				changes, err := c.Change(want)
				if err == nil {
					err = Check(t.Context(), "", c, changes, want, []string{"spin"}[len(want):])
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, ch := range changes {
					if ch.New == nil {
						err = os.Remove(ch.Path)
					} else {
						_ = os.MkdirAll(filepath.Dir(ch.Path), 0o755)
						err = os.WriteFile(ch.Path, ch.New, 0o644)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			h := Handler{Name: "spin", Type: "io.containerd.spin.v2"}
			if b := apply(h); strings.Contains(string(b), "disable = false") != tc.want {
				t.Errorf("the file is\n%s", b)
			}
			if again := apply(h); len(again) == 0 {
				t.Error("the file is empty")
			}
			if b := apply(); string(b) != tc.root {
				t.Errorf("afterwards the file is\n%s", b)
			}
		})
	}
}
