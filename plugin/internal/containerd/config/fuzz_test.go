package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// FuzzChange throws root files at the package, with containerd's loader as the oracle: whatever containerd accepts and
// we do not refuse must load with our handler, differ in nothing else, and come back byte for byte.
func FuzzChange(f *testing.F) {
	for _, root := range roots {
		f.Add(root, "v", false)
		f.Add(strings.ReplaceAll(root, "\n", "\r\n"), "\"'\n\\", true)
	}
	f.Fuzz(func(t *testing.T, root, option string, other bool) {
		if strings.Contains(root, "/proc") || strings.Contains(root, "/sys") || strings.Contains(root, "/dev") {
			t.Skip("files that are different at each reading")
		}
		files := map[string]string{"config.toml": root}
		if other {
			files["conf.d/other.toml"] = "[debug]\nlevel = 'debug'\n"
		}
		dir, path := etc(t, files)
		h := Handler{Name: "fuzz", Type: "io.containerd.fuzz.v1", Entry: "e", Options: map[string]any{"k" + option: option}}
		checkChange(t, dir, path, h)
	})
}

func checkChange(t *testing.T, dir, path string, h Handler) {
	t.Helper()
	c, err := Read(Place{Root: path})
	loaded, loadErr := loadTree(t.Context(), path)
	if err != nil || loadErr != nil {
		return // refused here, or not a config for containerd in the first place, which is Check's to find
	}
	changes, err := c.Change([]Handler{h})
	if err != nil {
		return // refused with a reason
	}
	for _, ch := range changes {
		if !strings.HasPrefix(ch.Path, dir) {
			return // the root imports a directory of this machine
		}
	}
	before := snapshot(t, dir)
	checked := Check(t.Context(), "", c, changes, []Handler{h}, nil)
	apply(t, changes)
	after, err := loadTree(t.Context(), path)
	if err != nil {
		t.Fatalf("containerd does not load it any more: %v\n%q", err, snapshot(t, dir))
	}
	direct := expect{want: []Handler{h}}.check(loaded, after)
	if (checked == nil) != (direct == nil) {
		t.Fatalf("Check says %v, the files as they lie say %v\n%q", checked, direct, snapshot(t, dir))
	}
	if checked != nil && !excused(checked.Error()) {
		t.Fatalf("%v\n%q", checked, snapshot(t, dir))
	}
	if again := change(t, path, h); len(again) != 0 {
		t.Fatalf("not idempotent: %+v", again)
	}
	apply(t, change(t, path))
	if got := snapshot(t, dir); !maps.Equal(before, got) {
		t.Fatalf("not restored:\n%q\n%q", before, got)
	}
}

// excused are refusals that are about the root file as it was.
func excused(text string) bool {
	for _, reason := range []string{"default_runtime_name", "disabled_plugins", "which does not exist"} {
		if strings.Contains(text, reason) {
			return true
		}
	}
	return false
}

// TestRenderAnything renders tables of any content and reads them back, through the file.
func TestRenderAnything(t *testing.T) {
	dir, path := etc(t, map[string]string{"config.toml": "version = 3\n"})
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.StringN(1, 8, -1)
		scalar := rapid.OneOf(rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.SliceOfN(rapid.String().AsAny(), 0, 3).AsAny())
		table := rapid.MapOfN(key, rapid.OneOf(scalar, rapid.MapOfN(key, scalar, 0, 3).AsAny()), 1, 4)
		h := Handler{Name: "a", Type: "/opt/a", Entry: "e", Options: table.Draw(rt, "options")}
		c, err := Read(Place{Root: path})
		if err != nil {
			rt.Fatal(err)
		}
		changes, err := c.Change([]Handler{h})
		if err != nil {
			rt.Fatal(err)
		}
		if err := Check(t.Context(), "", c, changes, []Handler{h}, nil); err != nil {
			rt.Fatal(err)
		}
		in, ok := parseDropin(filepath.Join(dir, "x"), "a", changes[0].New)
		if !ok || !in.Intact {
			rt.Fatalf("not read back: %q", changes[0].New)
		}
		again, err := render(in.Handler, domain{plugin: pluginV3})
		if err != nil || string(again) != string(changes[0].New) {
			rt.Fatalf("read back it renders as %q (%v), was %q", again, err, changes[0].New)
		}
	})
	if _, err := os.Stat(filepath.Join(dir, "conf.d")); err == nil {
		t.Error("Change or Check wrote to the directory")
	}
}

// TestImportsAnyShape writes the imports in every shape that TOML allows.
func TestImportsAnyShape(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		eol := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(rt, "eol")
		pick := func(label string, options ...string) string {
			return strings.ReplaceAll(rapid.SampledFrom(options).Draw(rt, label), "\n", eol)
		}
		gap := func() string { return pick("gap", "", " ", "\t", "\n", " # c, ] [ \"\n", "\n\n  # 'x\n  # y\n\t") }
		list := "["
		for i := range rapid.IntRange(0, 3).Draw(rt, "elements") {
			if i > 0 {
				list += "," + gap()
			}
			list += gap() + pick("element", "'/nowhere/*.a'", `"/nowhere/\u002a.b"`, `"""/nowhere/*.c"""`, "'/nowhere/,]*'", "'sub/*.toml'") + gap()
		}
		if strings.HasSuffix(strings.TrimSpace(list), "'") {
			list += pick("trailing", "", ",")
		}
		list += gap() + "]"
		parts := rapid.Permutation([]string{"version = 3", pick("key", "imports", "Imports", `"imports"`, "\t'imports' ") + " =" + pick("space", "", " ", "\t") + list + pick("tail", "", " # t"), "oom_score = 1", "# c"}).Draw(rt, "parts")
		root := strings.Join(parts, eol) + pick("end", "", "\n")
		dir := t.TempDir()
		path := filepath.Join(dir, "config.toml")
		if err := os.WriteFile(path, []byte(root), 0o600); err != nil {
			rt.Fatal(err)
		}
		if _, err := Read(Place{Root: path}); err != nil {
			rt.Fatalf("%v\n%q", err, root)
		}
		checkChange(t, dir, path, kata)
	})
}
