package config

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

// releases are those whose rules differ.
var releases = []string{"2.0.7", "2.1.5", "2.2.9", "2.3.7", "2.4.2"}

// FuzzChange throws root files at the package, with a judge for each containerd: whatever it accepts and we do not refuse
// must load with our handler, differ in nothing else, and come back byte for byte.
func FuzzChange(f *testing.F) {
	for _, root := range roots {
		for i := range releases {
			f.Add(root, "v", false, byte(i))
		}
		f.Add(strings.ReplaceAll(root, "\n", "\r\n"), "\"'\n\\", true, byte(len(releases)-1))
	}
	a := newArena(f)
	f.Fuzz(func(t *testing.T, root, option string, other bool, version byte) {
		at := Place{Root: a.path, Version: releases[int(version)%len(releases)]}
		if c := a.read(t, at, root, more(other, "[debug]\nlevel = 'debug'\n")); c != nil {
			checkChange(t, c, at, Handler{Name: "fuzz", Type: "io.containerd.fuzz.v1", Entry: "e", Options: map[string]any{"k" + option: option}})
		}
	})
}

// arena is a directory, in memory where there is such a place, that the inputs of a fuzz target take turns in.
type arena struct{ dir, path string }

func newArena(f *testing.F) arena {
	f.Helper()
	tmp, err := os.MkdirTemp("/dev/shm", "quiesce-fuzz-")
	if err != nil {
		tmp = f.TempDir()
	}
	f.Cleanup(func() { _ = os.RemoveAll(tmp) })
	f.Setenv("TMPDIR", tmp)
	dir := filepath.Join(tmp, "etc", "containerd")
	return arena{dir, filepath.Join(dir, "config.toml")}
}

// more are the files beside the root that an input has.
func more(other bool, text string) map[string]string {
	if !other {
		return nil
	}
	return map[string]string{"conf.d/other.toml": text}
}

// tester is a test, or one draw of a property.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// read fills the arena and reads it; nil: it is refused, or leads out of the arena to files that may be others at each reading.
func (a arena) read(t tester, at Place, root string, more map[string]string) *Config {
	t.Helper()
	if toml.Unmarshal(bytes.TrimPrefix([]byte(root), []byte(bom)), &map[string]any{}) != nil {
		return nil // sooner than with a file
	}
	if err := os.RemoveAll(a.dir); err != nil {
		t.Fatal(err)
	}
	mkdir(t, a.dir)
	write(t, a.path, root)
	for name, text := range more {
		path := filepath.Join(a.dir, name)
		mkdir(t, filepath.Dir(path))
		write(t, path, text)
	}
	c, err := Read(at)
	if err != nil {
		return nil
	}
	for _, s := range c.sources {
		for _, pattern := range s.imports {
			if path := absolute(s.path, pattern); !strings.HasPrefix(path, a.dir+"/") && !strings.HasPrefix(path, "/nowhere/") {
				return nil
			}
		}
	}
	return c
}

func checkChange(t tester, c *Config, at Place, h Handler) {
	t.Helper()
	dir := filepath.Dir(at.Root)
	loaded, err := judge(t.Context(), c.release, at.Root)
	if err != nil {
		return // not a config for containerd in the first place, which is Check's to find
	}
	changes, err := c.Change([]Handler{h})
	if err != nil {
		return // refused with a reason
	}
	before := snapshot(t, dir)
	checked := Check(t.Context(), "", c, changes, []Handler{h}, nil)
	apply(t, changes)
	after, err := judge(t.Context(), c.release, at.Root)
	if err != nil {
		t.Fatalf("containerd does not load it any more: %v\n%q", err, snapshot(t, dir))
	}
	direct := expect{want: []Handler{h}}.check(loaded, after)
	if checked == nil && direct != nil {
		t.Fatalf("Check finds nothing, the files as they lie say %v\n%q", direct, snapshot(t, dir))
	}
	if checked != nil && !excused(checked.Error()) {
		t.Fatalf("%v; the files as they lie say %v\n%q", checked, direct, snapshot(t, dir))
	}
	if again := plan(t, at, h); len(again) != 0 {
		t.Fatalf("not idempotent: %+v", again)
	}
	apply(t, plan(t, at))
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
		at := Place{Root: path, Version: rapid.SampledFrom(releases).Draw(rt, "version")}
		c, err := Read(at)
		if err != nil {
			rt.Fatalf("%v\n%q", err, root)
		}
		checkChange(t, c, at, kata)
	})
}
