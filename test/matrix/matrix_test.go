package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"quiesce/test/node"
)

// refusals are the only configs of testdata that containerd reads and quiesce does not edit, each with the reason.
var refusals = map[string]string{
	"2.2.9 v2-imports-missing.toml": "imports /nowhere/x.toml, which does not exist", // the daemon would not start
	"2.3.7 v2-imports-missing.toml": "imports /nowhere/x.toml, which does not exist",
	"2.4.2 v2-imports-missing.toml": "imports /nowhere/x.toml, which does not exist",
}

// TestConfig_a edits every config of testdata on every containerd: what it reads is edited and comes back byte for byte.
func TestConfig_a(t *testing.T) {
	files, err := readCorpus("testdata")
	if err != nil {
		t.Fatal(err)
	}
	kit, err := node.Prepare(t.Context(), node.Matrix()...)
	if err != nil {
		t.Fatal(err)
	}
	cells, err := all(t.Context(), kit, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range unlisted(cells) {
		t.Errorf("no listed reason: %s", u)
	}
	used := map[string]bool{}
	for _, c := range cells {
		name := c.version + " " + c.file
		reason, known := refusals[name]
		switch {
		case c.verdict == missed:
			t.Errorf("%s, %s: %s", name, c.operation, c.why)
		case c.verdict == refused && c.accepted && (!known || !strings.Contains(c.why, reason)):
			t.Errorf("%s, %s: refused: %s", name, c.operation, c.why)
		case c.verdict == refused:
			used[name] = true
			if !strings.Contains(c.why, root) {
				t.Errorf("%s, %s: the reason names no file: %s", name, c.operation, c.why)
			}
		case known:
			t.Errorf("%s, %s: is %s, and was to be refused", name, c.operation, c.verdict)
		}
	}
	for name := range refusals {
		if !used[name] {
			t.Errorf("%s: was not tried", name)
		}
	}
	total := count(files, cells)
	if len(cells) != len(files)*len(node.Matrix())*len(operations) || total.Added+total.Restored+total.Refused != len(cells) {
		t.Errorf("%d cells: %+v", len(cells), total)
	}
}

// TestJudge has trees in which something is wrong.
func TestJudge(t *testing.T) {
	tree := func(handlers map[string]any, level string) map[string]any {
		return map[string]any{"debug": map[string]any{"level": level}, "plugins": map[string]any{
			"io.containerd.cri.v1.runtime": map[string]any{"containerd": map[string]any{"runtimes": handlers}},
		}}
	}
	runc := map[string]any{"runtime_type": "r"}
	good := map[string]any{"runtime_type": two.Type, "options": two.Options, "privileged_without_host_devices": true, "snapshotter": "", "list": []any{}, "sandboxer": "podsandbox"}
	with := func(key string, value any) map[string]any {
		m := maps.Clone(good)
		m[key] = value
		return m
	}
	tests := map[string]struct {
		after map[string]any
		want  string
	}{
		"good":         {tree(map[string]any{"runc": runc, two.Name: good}, "info"), ""},
		"missing":      {tree(map[string]any{"runc": runc}, "info"), "is missing"},
		"type":         {tree(map[string]any{"runc": runc, two.Name: with("runtime_type", "")}, "info"), "runtime_type"},
		"options":      {tree(map[string]any{"runc": runc, two.Name: with("options", map[string]any{})}, "info"), "options"},
		"more":         {tree(map[string]any{"runc": runc, two.Name: with("snapshotter", "zfs")}, "info"), "nobody asked"},
		"one too many": {tree(map[string]any{"runc": runc, two.Name: good, "x": runc}, "info"), "besides the handlers"},
		"runc is lost": {tree(map[string]any{two.Name: good}, "info"), "besides the handlers"},
		"elsewhere":    {tree(map[string]any{"runc": runc, two.Name: good}, "debug"), "debug.level"},
	}
	for name, tt := range tests {
		got := judge(tree(map[string]any{"runc": runc}, "info"), tt.after, []handler{two})
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if got := judge(tree(map[string]any{two.Name: runc}, "info"), tree(map[string]any{two.Name: good}, "info"), []handler{two}); !strings.Contains(got, "there before") {
		t.Errorf("a handler that was there: %q", got)
	}
}

func TestCorpus(t *testing.T) {
	if _, err := readCorpus("nowhere"); err == nil || !strings.Contains(err.Error(), "MATRIX_DIR") {
		t.Errorf("no corpus: %v", err)
	}
	files, err := readCorpus("testdata")
	if err != nil || !slices.ContainsFunc(files, func(f file) bool { return f.name == "v2-crlf.toml" && strings.Contains(string(f.data), "\r\n") }) {
		t.Errorf("testdata: %d files, %v", len(files), err)
	}
}

// TestReasons has refusals with a reason and without.
func TestReasons(t *testing.T) {
	cells := []*cell{
		{accepted: true, verdict: refused, why: `/etc/x.toml:3: imports /nowhere/x.toml, which does not exist, so containerd would not start`},
		{accepted: true, verdict: refused, why: `check changed config: disabled_plugins has "cri", so no pod can use a handler; enable CRI first`},
		{accepted: true, verdict: refused, why: "check changed config: more would change than our handlers: a.b", file: "x.toml", version: "2.4.2"},
		{accepted: false, verdict: refused, why: "anything"},
		{accepted: true, verdict: added},
	}
	if got := unlisted(cells); len(got) != 1 || !strings.Contains(got[0], "2.4.2  x.toml") {
		t.Errorf("unlisted: %q", got)
	}
}
