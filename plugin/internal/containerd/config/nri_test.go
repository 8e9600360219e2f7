package config

import (
	"bytes"
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
		"asked":                {root, "1.7.35", true, true},
		"not asked":            {root, "1.7.35", false, false},
		"on by default":        {root, "2.1.5", true, false},
		"a dump says off":      {root + "[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = true\n", "1.7.35", true, true},
		"its table is not":     {root + "[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = true\n", "1.7.35", false, false},
		"a later one says off": {root + "[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = true\n", "2.1.5", true, false},
		"there is none":        {root, "1.6.36", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.toml")
			if err := os.WriteFile(path, []byte(tc.root), 0o644); err != nil {
				t.Fatal(err)
			}
			at := Place{Root: path, Version: tc.version, NRI: tc.ask}
			h := Handler{Name: "spin", Type: "io.containerd.spin.v2"}
			if b := changed(t, at, h); strings.Contains(string(b), "disable = false") != tc.want {
				t.Errorf("the file is\n%s", b)
			}
			if again := changed(t, at, h); len(again) == 0 {
				t.Error("the file is empty")
			}
			if b := changed(t, at); string(b) != tc.root {
				t.Errorf("afterwards the file is\n%s", b)
			}
		})
	}
}

// changed gives a place the handlers that are wanted instead of spin, and returns its root file.
func changed(t *testing.T, at Place, want ...Handler) []byte {
	t.Helper()
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
	b, err := os.ReadFile(at.Root)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNRITable turns NRI on in a table that somebody else wrote, byte for byte, and back.
func TestNRITable(t *testing.T) {
	const head = "[plugins.'io.containerd.nri.v1.nri']"
	for name, tc := range map[string]struct{ before, after string }{
		"dumped":              {"version = 2\n" + head + "\n    disable = true\n    x = 1\n[debug]\n", "version = 2\n" + head + "\n    disable = false # quiesce: was true\n    x = 1\n[debug]\n"},
		"with a comment":      {bom + head + "\r\ndisable=true# why\r\n", bom + head + "\r\ndisable=false # quiesce: was true# why\r\n"},
		"on already":          {head + "\ndisable = false\n", head + "\ndisable = false\n"},
		"dotted":              {"plugins.'io.containerd.nri.v1.nri'.disable = true", "plugins.'io.containerd.nri.v1.nri'.disable = false # quiesce: was true"},
		"not said":            {head + " # c\nx = 1\n", head + " # c\n" + nriLine + "\nx = 1\n"},
		"not said, windows":   {head + "\r\nx = 1\r\n", head + "\r\n" + nriLine + "\r\nx = 1\r\n"},
		"not said, no end":    {"x = 1\n" + head, "x = 1\n" + head + "\n" + nriLine},
		"dotted and not said": {"plugins.'io.containerd.nri.v1.nri'.x = 1\n", "plugins.'io.containerd.nri.v1.nri'.x = 1\n"},
		"another's":           {"[x]\ndisable = true\n", "[x]\ndisable = true\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := turnNRI([]byte(tc.before))
			same(t, "turned on", tc.after, string(got))
			same(t, "restored", tc.before, string(restoreNRI(got)))
		})
	}
}

// TestNRIOfImport is turned on in the file that counts, in all ways that a file may end, and stays on over an upgrade.
func TestNRIOfImport(t *testing.T) {
	const off = "[plugins.'io.containerd.nri.v1.nri']\ndisable = true"
	for name, files := range map[string]map[string]string{
		"root":           {"config.toml": "version = 2\n" + off},
		"root, no key":   {"config.toml": "version = 2\n[plugins.'io.containerd.nri.v1.nri']"},
		"import":         {"config.toml": "version = 2\nimports = ['a.toml']\n" + runcV2, "a.toml": off},
		"last import":    {"config.toml": "version = 2\nimports = ['a.toml', 'b.toml']\n" + off, "a.toml": off, "b.toml": off},
		"import, no key": {"config.toml": "version = 2\nimports = ['a.toml']\n", "a.toml": "[plugins.'io.containerd.nri.v1.nri']"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := etc(t, files)
			older, newer := Place{Root: path, Version: legacyVersion, NRI: true}, Place{Root: path, Version: "2.4.2", NRI: true}
			for _, at := range []Place{older, newer, older} {
				apply(t, plan(t, at, spin))
				if n, err := ReadNRI(t.Context(), path); err != nil || n.Disabled == nil || *n.Disabled {
					t.Fatalf("NRI: %+v, %v, in %v", n, err, snapshot(t, dir))
				}
			}
			applyChecked(t, older, []string{"spin"})
			same(t, "files", files, snapshot(t, dir))
			applyChecked(t, older, nil, spin)
			older.NRI = false
			applyChecked(t, older, nil, spin)
			if n, err := ReadNRI(t.Context(), path); err != nil || n.Disabled != nil && !*n.Disabled {
				t.Errorf("NRI is touched though that is not wanted: %+v, %v", n, err)
			}
			applyChecked(t, older, []string{"spin"})
			same(t, "files", files, snapshot(t, dir))
		})
	}
}

func applyChecked(t *testing.T, at Place, gone []string, want ...Handler) {
	t.Helper()
	c := mustRead(t, at)
	changes, err := c.Change(want)
	if err == nil {
		err = Check(t.Context(), "", c, changes, want, gone)
	}
	if err != nil {
		t.Fatal(err)
	}
	apply(t, changes)
	if again := plan(t, at, want...); len(again) != 0 {
		t.Fatalf("not idempotent: %+v", again)
	}
}

// TestRealLegacyDump installs into what containerd 1.7 gives as its default config, with that containerd as the judge.
func TestRealLegacyDump(t *testing.T) {
	binary := legacyProgram(t)
	var dump bytes.Buffer
	d := dumper{binary: binary, dir: t.TempDir()}
	if err := d.run(t.Context(), &dump, "config", "default"); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"config.toml": dump.String()}
	dir, path := etc(t, files)
	at := Place{Root: path, Version: legacyVersion, NRI: true}
	for _, want := range [][]Handler{{spin, kata}, nil} {
		c := mustRead(t, at)
		changes, err := c.Change(want)
		if err == nil {
			err = Check(t.Context(), binary, c, changes, want, []string{"spin", "kata-qemu"}[len(want):])
		}
		if err != nil {
			t.Fatal(err)
		}
		apply(t, changes)
		tree, err := d.tree(t.Context(), path)
		if err != nil || treeSource(tree).plugin(pluginNRI)["disable"] != (want == nil) {
			t.Fatalf("NRI: %v, %v", treeSource(tree).plugin(pluginNRI), err)
		}
	}
	same(t, "files", files, snapshot(t, dir))
}

// TestReadNRIOfWhatContainerdPanicsOf is an error like any other.
func TestReadNRIOfWhatContainerdPanicsOf(t *testing.T) {
	_, path := etc(t, map[string]string{"config.toml": "version = -2\n"})
	if _, err := ReadNRI(t.Context(), path); err == nil || !strings.Contains(err.Error(), "containerd would panic") {
		t.Errorf("got %v", err)
	}
}
