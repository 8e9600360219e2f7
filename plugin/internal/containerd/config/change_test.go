package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	runcV2 = "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n"
	runcV3 = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n"
)

// roots are root files whose bytes must come back.
var roots = map[string]string{
	"empty":                    "",
	"only a comment":           "# nothing",
	"only spaces":              "  \n\n",
	"version 2":                "version = 2\n" + runcV2,
	"version 3":                "version = 3\n" + runcV3,
	"version 4":                "version = 4\n" + runcV3,
	"no version":               runcV2,
	"no spaces":                "version=3\n" + runcV3,
	"mis-cased tables":         "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.Containerd.Runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n",
	"mis-cased tables, 2":      "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.conTainerd.Runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n",
	"mis-cased keys":           "Version = 3\nImports = []\n",
	"version at the end":       "root = '/x'\nversion = 2",
	"indented version":         "\t version = 2 # why\n",
	"no final newline":         "version = 2\n[debug]\nlevel = 'info'",
	"windows line ends":        "version = 3\r\n# c\r\n[debug]\r\nlevel = 'info'\r\n",
	"quoted keys":              "\"version\" = 3\n'imports' = []\n",
	"empty imports":            "version = 3\nimports = []\n",
	"empty imports, spaces":    "version = 3\nimports   =   [  ]   # c\n",
	"empty imports, lines":     "version = 3\nimports = [\n # [ none ] ,\n]\n",
	"imports, one":             "version = 3\nimports = ['/nowhere/*.toml.off']\n",
	"imports, a space first":   "version = 3\nimports = [ '/nowhere/x*.toml' ]\n",
	"imports, lines":           "version = 3\nimports = [\n\t'/nowhere/*.conf', # \"c\" ]\n\t\"/nowhere/b*\",\n]\n",
	"imports, windows":         "imports = [\r\n  '/nowhere/*.conf',\r\n]\r\nversion = 2\r\n",
	"imports before version":   "imports = ['/nowhere/*.off']\nversion = 2\n" + runcV2,
	"imports in a table":       "version = 2\n[x]\nimports = ['/nowhere']\nversion = 9\n",
	"imports of conf.d":        "version = 3\nimports = ['conf.d/*.toml']\n",
	"imports of elsewhere":     "version = 3\nimports = ['more/*.toml', 'conf.d/*.toml']\n",
	"version 2, new tables":    "version = 2\n" + runcV3,
	"no version, new tables":   runcV3,
	"mark in a comment":        "# made from a template: {{ x }}\nversion = 2\n",
	"inline tables":            "version = 3\nplugins = {'io.containerd.cri.v1.runtime' = {containerd = {runtimes = {runc = {runtime_type = 'io.containerd.runc.v2'}}}}}\n",
	"braces of shell":          "version = 2\nroot = '${DATA}'\n",
	"default runtime of shell": "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = '${RUNTIME}'\n",
	"our own glob, by a user":  "version = 3\nimports = ['conf.d/quiesce-*.toml']\n",
}

// TestRoundTrip adds two handlers, changes one, asks again, and takes them out in two steps.
func TestRoundTrip(t *testing.T) {
	for name, root := range roots {
		t.Run(name, func(t *testing.T) {
			dir, path := etc(t, map[string]string{"config.toml": root})
			roundTrip(t, dir, path)
		})
	}
	t.Run("missing", func(t *testing.T) {
		dir, path := etc(t, nil)
		roundTrip(t, dir, path)
	})
	t.Run("others in conf.d", func(t *testing.T) {
		dir, path := etc(t, map[string]string{"config.toml": "version = 3\n", "conf.d/other.toml": "version = 99\n"})
		roundTrip(t, dir, path)
	})
}

func roundTrip(t *testing.T, dir, path string) {
	t.Helper()
	before, tree := snapshot(t, dir), load(t, path)
	edited := spin
	edited.Type = "io.containerd.spin.v3"
	steps := []struct {
		want []Handler
		gone []string
	}{
		{want: []Handler{spin}},
		{want: []Handler{spin, kata}},
		{want: []Handler{edited, kata}},
		{want: []Handler{kata}, gone: []string{spin.Name}},
		{gone: []string{kata.Name}},
	}
	for _, step := range steps {
		c := read(t, path)
		changes, err := c.Change(step.want)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(t.Context(), program(t), c, changes, step.want, step.gone); err != nil {
			t.Fatal(err)
		}
		apply(t, changes)
		if again := change(t, path, step.want...); len(again) != 0 {
			t.Fatalf("not idempotent: %+v", again)
		}
		// The oracle reads the files where they are, not Check's copy.
		e := expect{want: step.want, gone: step.gone}
		if err := e.check(load(t, path), load(t, path)); err != nil {
			t.Fatal(err)
		}
		if err := (expect{gone: nil}).check(without2(tree), without2(load(t, path))); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "files after the round trip", before, snapshot(t, dir))
}

// without2 is a tree less the runtimes that the round trip brings.
func without2(tree map[string]any) map[string]any {
	dropRuntimes(tree, []string{spin.Name, kata.Name})
	return tree
}

func TestRefused(t *testing.T) {
	tests := map[string]struct {
		root string
		want string
	}{
		"version 5":           {"#\n\nversion = 5\n", "config.toml:3: config version 5 is not known"},
		"negative version":    {"version = -2\n", "config version -2"},
		"version, a string":   {"version = '2'\n", "config.toml:1: containerd cannot read"},
		"imports, a string":   {"imports = '2'\n", "config.toml:1: containerd cannot read"},
		"broken":              {"version = 2\n[plugins\n", "config.toml:2: containerd cannot read"},
		"duplicate table":     {"[a]\n[a]\n", "config.toml:2: containerd cannot read"},
		"duplicate imports":   {"imports = []\nImports = []\n", `the key "imports" is there twice`},
		"duplicate tables":    {"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.Runtimes]\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]\n", "config.toml:2: the key"},
		"byte order mark":     {"\xef\xbb\xbfversion = 2\n", "config.toml:1: the file starts with a UTF-8 byte order mark"},
		"go template":         {"version = 2\n{{ template \"base\" . }}\n", "config.toml:2: this is a template"},
		"template in string":  {"version = 2\nroot = \"{{ .Root }}\"\n", "config.toml:2: this is a template"},
		"jinja":               {"version = 2\n{% if x %}\n", "config.toml:2: this is a template"},
		"no table":            {"version = 3\n\n[plugins.'io.containerd.cri.v1.runtime']\ncontainerd = 3\n", "config.toml:3: \"containerd\" of CRI must be a table"},
		"no table of runtime": {"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\nruntimes.x = []\n", "config.toml:2: \"x\" of CRI must be a table"},
		"two CRI":             {"[plugins.cri]\n[plugins.'io.containerd.grpc.v1.cri']\n", "config.toml:1: has tables of both"},
		"mis-cased and mixed": {"version = 2\n[plugins.'io.containerd.cri.v1.runtime'.Containerd.runtimes]\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes]\n", "config.toml:2: the key \"Containerd\""},
		"a broken pattern":    {"version = 3\nimports = ['conf.d/quiesce* [l']\n", "config.toml:2: imports \"conf.d/quiesce* [l\": syntax error in pattern"},
		"a wide import":       {"version = 3\n\nimports = ['*']\n", "config.toml:3: imports \"*\", which would take the new directory"},
		"a wide import of .d": {"version = 3\nimports = ['*', '.d/*.toml']\n", "config.toml:2: imports \"*\", which would take the new directory"},
		"foreign handler":     {"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.spin]\n", `handler "spin" is already configured in `},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, path := etc(t, map[string]string{"config.toml": tt.root})
			c, err := Read(Place{Root: path})
			if err == nil {
				_, err = c.Change([]Handler{spin})
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestBadHandler(t *testing.T) {
	deep := func(v any) Handler {
		return Handler{Name: "a", Type: "io.containerd.a.v1", Options: map[string]any{"k": []any{v}}}
	}
	tests := map[string]Handler{
		"name":           {Name: "A", Type: "io.containerd.a.v1"},
		"name, a path":   {Name: "../a", Type: "io.containerd.a.v1"},
		"type":           {Name: "a", Type: "a"},
		"relative path":  {Name: "a", Type: "bin/a"},
		"unclean path":   {Name: "a", Type: "/bin/../a"},
		"entry":          {Name: "a", Type: "/a", Entry: "x\n[plugins]"},
		"reserved":       {Name: "a", Type: "/a", Settings: map[string]any{"Runtime_Path": "/b"}},
		"twins":          {Name: "a", Type: "/a", Settings: map[string]any{"snapshotter": "", "Snapshotter": ""}},
		"nil":            deep(nil),
		"table in array": deep(map[string]any{}),
		"no utf-8":       deep("\xff"),
		"struct":         deep(struct{}{}),
		"built-in":       {Name: "runc", Type: "io.containerd.runc.v2"},
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			_, path := etc(t, nil)
			if changes, err := read(t, path).Change([]Handler{h}); err == nil {
				t.Fatalf("no error, but %d changes", len(changes))
			}
		})
	}
	_, path := etc(t, nil)
	if _, err := read(t, path).Change([]Handler{spin, spin}); err == nil {
		t.Error("no error for a handler that is wanted twice")
	}
}

func TestSymlink(t *testing.T) {
	dir, path := etc(t, map[string]string{"real/containerd.toml": "version = 2\nimports = ['conf.d/*.toml-not']\n"})
	if err := os.Symlink("real/containerd.toml", path); err != nil {
		t.Fatal(err)
	}
	changes := change(t, path, spin)
	if len(changes) != 2 || changes[1].Path != filepath.Join(dir, "real/containerd.toml") || changes[1].Mode != 0o600 {
		t.Fatalf("changes: %+v", changes)
	}
	if want := filepath.Join(dir, "conf.d/quiesce-spin.toml"); changes[0].Path != want {
		t.Fatalf("drop-in in %s, want %s: containerd resolves imports beside the link", changes[0].Path, want)
	}
	roundTrip(t, dir, path)
	if err := os.Remove(filepath.Join(dir, "real/containerd.toml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(Place{Root: path}); err == nil {
		t.Fatal("no error for a dangling link")
	}
}

// TestRewritten has another program re-marshal the root between adding and removing: our import goes, theirs stay.
func TestRewritten(t *testing.T) {
	tests := map[string]struct{ before, after string }{
		"last":      {"imports = ['/nowhere/*.off', 'OURS']\n", "imports = ['/nowhere/*.off', ]\n"},
		"middle":    {"imports = [\n'/nowhere/*.off' , \"OURS\"\n, '/nowhere/b*']\n", "imports = [\n'/nowhere/*.off' ,  '/nowhere/b*']\n"},
		"alone":     {"imports = ['OURS']\n", "imports = []\n"},
		"other too": {"imports = ['OURS', 'conf.d/*.toml'] # added by quiesce\n", "imports = ['conf.d/*.toml'] # added by quiesce\n"},
		"line, eof": {"imports = ['OURS'] # added by quiesce", ""},
		"more text": {"imports = ['OURS'] # added by quiesce, long ago\n", "imports = [] # added by quiesce, long ago\n"},
		"first":     {"imports = ['OURS','/nowhere/*.off']\n", "imports = ['/nowhere/*.off']\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir, path := etc(t, nil)
			root := strings.ReplaceAll(tt.before, "OURS", filepath.Join(dir, "conf.d/quiesce-*.toml"))
			if err := os.WriteFile(path, []byte(root), 0o600); err != nil {
				t.Fatal(err)
			}
			apply(t, change(t, path))
			same(t, "root", map[string]string{"config.toml": tt.after}, snapshot(t, dir))
		})
	}
}

// TestImportLost is a node whose config is made anew at each boot.
func TestImportLost(t *testing.T) {
	dir, path := etc(t, map[string]string{"config.toml": "version = 3\n"})
	apply(t, change(t, path, spin))
	if err := os.WriteFile(path, []byte("version = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apply(t, change(t, path, spin))
	if got := runtimesOf(load(t, path)); got["spin"] == nil {
		t.Fatalf("handler is not back: %v", got)
	}
	apply(t, change(t, path))
	same(t, "files", map[string]string{"config.toml": "version = 2\n"}, snapshot(t, dir))
}

// TestStay keeps the drop-ins where they are when the root imports more directories later.
func TestStay(t *testing.T) {
	dir, path := etc(t, map[string]string{"config.toml": "version = 3\n"})
	apply(t, change(t, path, spin))
	root := snapshot(t, dir)["config.toml"]
	if err := os.WriteFile(path, []byte(strings.Replace(root, "[", "['more/*.toml', ", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if changes := change(t, path, spin); len(changes) != 0 {
		t.Fatalf("moved: %+v", changes)
	}
}
