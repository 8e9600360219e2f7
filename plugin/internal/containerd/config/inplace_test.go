package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const legacyVersion = "1.7.35"

// plan is Change for a place.
func plan(tb tester, at Place, want ...Handler) []Change {
	tb.Helper()
	c, err := Read(at)
	if err != nil {
		tb.Fatalf("Read: %v", err)
	}
	changes, err := c.Change(want)
	if err != nil {
		tb.Fatalf("Change: %v", err)
	}
	return changes
}

// legacyRefused are roots that containerd 1.7 does not read, or that cannot be edited in place there.
var legacyRefused = map[string]string{
	"version 3": "too new", "version 4": "too new", "no spaces": "too new", "mis-cased tables": "too new", "mis-cased keys": "reads over",
	"windows line ends": "too new", "quoted keys": "too new", "empty imports": "too new", "empty imports, spaces": "too new",
	"empty imports, lines": "too new", "imports, one": "too new", "imports, a space first": "too new", "imports, lines": "too new",
	"imports of conf.d": "too new", "imports of elsewhere": "too new", "inline tables": "too new", "our own glob, by a user": "too new",
}

// inlines are roots of containerd 1.7 with inline tables.
var inlines = map[string]string{
	"inline plugins": "version = 2\nplugins = {'io.containerd.grpc.v1.cri' = {containerd = {runtimes = {runc = {runtime_type = 'io.containerd.runc.v2'}}}}} # c",
	"inline, empty":  "version = 2\nplugins = { }\n[debug]\nlevel = 'info'\n", "inline, a plugin": "version = 2\r\n[plugins]\r\n'io.containerd.grpc.v1.cri' = {sandbox_image = 'x'}\r\n",
	"inline, in parts": bom + "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\ncontainerd.runtimes = { runc = {runtime_type = 'io.containerd.runc.v2', options = {}} }\n",
	"inline, dotted":   "version = 2\nplugins = {'io.containerd.grpc.v1.cri'.containerd.snapshotter = 'native', 'io.containerd.x.v1.x' = {}}\n",
	"inline, below":    "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes]\nrunc = {runtime_type = 'io.containerd.runc.v2'}\n",
}

// TestLegacyRoundTrip edits the owning file in place, as containerd 1.7 needs it, and takes everything out again.
func TestLegacyRoundTrip(t *testing.T) {
	more := map[string]string{
		"byte order mark": bom + "version = 2\n", "only a mark": bom, "windows, no line end": "version = 2\r\n[debug]\r\nlevel = 'info'",
		"dotted": "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\ncontainerd.snapshotter = 'native'\n", "version 1": "version = 1\n",
		"dotted, top":    "version = 2\nplugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.runtime_type = 'io.containerd.runc.v2'",
		"empty runtimes": "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes]\n",
	}
	for _, set := range []map[string]string{roots, inlines, more} {
		for name, root := range set {
			t.Run(name, func(t *testing.T) {
				dir, path := etc(t, map[string]string{"config.toml": root})
				legacyRoundTrip(t, dir, path, legacyRefused[name])
			})
		}
	}
	t.Run("missing", func(t *testing.T) {
		dir, path := etc(t, nil)
		legacyRoundTrip(t, dir, path, "")
	})
}

func legacyRoundTrip(t *testing.T, dir, path, refused string) {
	t.Helper()
	before, at := snapshot(t, dir), Place{Root: path, Version: legacyVersion, NRI: true}
	binary := legacyProgram(t)
	if strings.HasSuffix(before["config.toml"], "containerd.runtimes]\n") {
		binary = "" // there is no runc, as that containerd says: CRI would not load
	}
	edited := spin
	edited.Type = "io.containerd.spin.v3"
	var had []Handler
	for _, want := range [][]Handler{{spin}, {spin, kata}, {edited, kata}, {kata}, nil} {
		c, err := Read(at)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := c.Change(want)
		if refused != "" {
			if err == nil || !strings.Contains(err.Error(), refused) {
				t.Fatalf("got error %v, want one with %q", err, refused)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(t.Context(), binary, c, changes, want, names(had, want)); err != nil {
			t.Fatal(err)
		}
		apply(t, changes)
		if again := plan(t, at, want...); len(again) != 0 {
			t.Fatalf("not idempotent: %+v", again)
		}
		got, err := mustRead(t, at).Handlers()
		if err != nil || len(got) != len(want) || slices.ContainsFunc(got, func(in Installed) bool { return !in.Intact }) {
			t.Fatalf("handlers: %+v, %v", got, err)
		}
		had = want
	}
	same(t, "files after the round trip", before, snapshot(t, dir))
}

// names are those of the handlers that are no longer wanted.
func names(had, want []Handler) (gone []string) {
	left := map[string]bool{}
	for _, h := range want {
		left[h.Name] = true
	}
	for _, h := range had {
		if !left[h.Name] {
			gone = append(gone, h.Name)
		}
	}
	return gone
}

// TestOwner finds the file whose table of CRI is the one that counts before 2.0: the last.
func TestOwner(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"root":          {map[string]string{"config.toml": "version = 2\nimports = ['a/*.toml']\n" + runcV2, "a/x.toml": "[debug]\nlevel = 'info'\n"}, "config.toml"},
		"import":        {map[string]string{"config.toml": "version = 2\nimports = ['a/*.toml']\n" + runcV2, "a/x.toml": runcV2}, "a/x.toml"},
		"last import":   {map[string]string{"config.toml": "version = 2\nimports = ['a/*.toml']\n", "a/x.toml": runcV2, "a/y.toml": runcV2}, "a/y.toml"},
		"import's":      {map[string]string{"config.toml": "version = 2\nimports = ['a.toml', 'c.toml']\n", "a.toml": "imports = ['b.toml']\n", "b.toml": runcV2, "c.toml": runcV2}, "b.toml"},
		"wrong version": {map[string]string{"config.toml": "version = 2\nimports = ['a.toml']\n", "a.toml": "[plugins.cri]\n"}, "config.toml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir, path := etc(t, tt.files)
			at := Place{Root: path, Version: legacyVersion}
			changes := plan(t, at, spin)
			if len(changes) != 1 || changes[0].Path != filepath.Join(dir, tt.want) || changes[0].Mode != 0o600 {
				t.Fatalf("changes: %+v, want one of %s", changes, tt.want)
			}
			apply(t, changes)
			got, err := mustRead(t, at).Handlers()
			if err != nil || len(got) != 1 || !got[0].Intact || got[0].Entry != spin.Entry || got[0].Path != changes[0].Path {
				t.Fatalf("handlers: %+v, %v", got, err)
			}
			apply(t, plan(t, at))
			same(t, "files", tt.files, snapshot(t, dir))
		})
	}
}

func mustRead(tb testing.TB, at Place) *Config {
	tb.Helper()
	c, err := Read(at)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestOthersWrote has somebody change the file between adding and removing: ours goes, theirs stays.
func TestOthersWrote(t *testing.T) {
	tests := map[string]struct{ before, above, below, after string }{
		"below":              {"version = 2\n", "", "[debug]\nlevel = 'info'\n", "version = 2\n[debug]\nlevel = 'info'\n"},
		"below, no line end": {"version = 2", "", "[debug]\n", "version = 2\n[debug]\n"},
		"above":              {"version = 2\n", "# them\n", "", "# them\nversion = 2\n"},
		"nothing":            {"version = 2", "", "", "version = 2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir, path := etc(t, map[string]string{"config.toml": tt.before})
			at := Place{Root: path, Version: legacyVersion}
			apply(t, plan(t, at, spin))
			root := tt.above + snapshot(t, dir)["config.toml"] + tt.below
			if err := os.WriteFile(path, []byte(root), 0o600); err != nil {
				t.Fatal(err)
			}
			if again := plan(t, at, spin); len(again) != 0 {
				t.Fatalf("theirs is undone: %+v", again)
			}
			apply(t, plan(t, at))
			same(t, "files", map[string]string{"config.toml": tt.after}, snapshot(t, dir))
		})
	}
}

// TestPartDamaged has somebody break our part: it is mended where its borders are known, and else nothing is touched.
func TestPartDamaged(t *testing.T) {
	dir, path := etc(t, map[string]string{"config.toml": "version = 2\n"})
	at := Place{Root: path, Version: legacyVersion}
	apply(t, plan(t, at, spin))
	whole := snapshot(t, dir)["config.toml"]
	put := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"value": strings.Replace(whole, "spin.v2", "spin.v1", 1), "syntax": strings.ReplaceAll(whole, "runtime_type", "[["),
	} {
		put(text)
		if got, err := mustRead(t, at).Handlers(); err != nil || len(got) != 1 || got[0].Intact {
			t.Fatalf("%s: handlers: %+v, %v", name, got, err)
		}
		apply(t, plan(t, at, spin))
		same(t, name, whole, snapshot(t, dir)["config.toml"])
	}
	for name, text := range map[string]string{"no end": strings.Replace(whole, regionEnd, "", 1), "twice": whole + whole} {
		put(text)
		if _, err := Read(at); err == nil || !strings.Contains(err.Error(), "config.toml") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUpgraded moves our part into drop-ins when containerd 2 comes, and back.
func TestUpgraded(t *testing.T) {
	root := map[string]string{"config.toml": "version = 2\n" + runcV2}
	dir, path := etc(t, root)
	older, newer := Place{Root: path, Version: legacyVersion}, Place{Root: path, Version: "2.4.2"}
	apply(t, plan(t, older, spin, kata))
	apply(t, plan(t, newer, spin, kata))
	if files := snapshot(t, dir); strings.Contains(files["config.toml"], regionBegin) || files["conf.d/quiesce-spin.toml"] == "" {
		t.Fatalf("files: %v", files)
	}
	apply(t, plan(t, older, spin, kata))
	if files := snapshot(t, dir); len(files) != 1 {
		t.Fatalf("files: %v", files)
	}
	apply(t, plan(t, older))
	same(t, "files", root, snapshot(t, dir))
}

// TestInline shows what an inline table looks like with ours in it, and what happens when others touch that.
func TestInline(t *testing.T) {
	const root = "version = 2\nplugins = {'io.containerd.grpc.v1.cri' = {containerd = {runtimes = {runc = {runtime_type = 'io.containerd.runc.v2'}}}}}\n"
	dir, path := etc(t, map[string]string{"config.toml": root})
	at := Place{Root: path, Version: legacyVersion, NRI: true}
	apply(t, plan(t, at, kata))
	got := snapshot(t, dir)["config.toml"]
	line := "plugins = {'io.containerd.nri.v1.nri'.disable = false, 'io.containerd.grpc.v1.cri' = {containerd = {runtimes = {kata-qemu = {runtime_type = '" + kata.Type + "'}, runc = {runtime_type = 'io.containerd.runc.v2'}}}}}\n"
	if !strings.HasPrefix(got, "version = 2\n"+line+regionBegin+"\n") {
		t.Fatalf("the file is\n%s", got)
	}
	put := func(old, now string) {
		if err := os.WriteFile(path, []byte(strings.Replace(got, old, now, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("runc = {", "x = {runtime_type = 'y'}, runc = {")
	apply(t, plan(t, at))
	same(t, "theirs", strings.Replace(root, "runc = {", "x = {runtime_type = 'y'}, runc = {", 1), snapshot(t, dir)["config.toml"])
	put("shim-kata-v2'}, runc", "shim-kata-v3'}, runc")
	if _, err := Read(at); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "bring it back") {
		t.Errorf("ours is changed: %v", err)
	}
	put("runc = {", "spin = {runtime_type = 'y'}, runc = {")
	adopted := spin
	adopted.Adopt = true
	if _, err := mustRead(t, at).Change([]Handler{adopted}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("adopted from inside of an inline table: %v", err)
	} else {
		t.Log(err)
	}
}

// TestUpgradedWithoutRuntimes moves ours into drop-ins, and what was written of the built-in runc goes.
func TestUpgradedWithoutRuntimes(t *testing.T) {
	dir, path := etc(t, map[string]string{"config.toml": "version = 2\n"})
	apply(t, plan(t, Place{Root: path, Version: legacyVersion}, spin))
	c := mustRead(t, Place{Root: path, Version: "2.4.2"})
	changes, err := c.Change([]Handler{spin})
	if err == nil {
		err = Check(t.Context(), program(t), c, changes, []Handler{spin}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	apply(t, changes)
	if root := snapshot(t, dir)["config.toml"]; strings.Contains(root, builtin) {
		t.Errorf("the root is\n%s", root)
	}
}
