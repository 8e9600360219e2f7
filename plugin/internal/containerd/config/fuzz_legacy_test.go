package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzChangeLegacy throws root files at the edits in place, with the loader of containerd 1.7 as the judge: whatever it
// accepts and we do not refuse must load with our handler, differ in nothing else, and come back byte for byte.
func FuzzChangeLegacy(f *testing.F) {
	for _, root := range roots {
		f.Add(root, "v", false)
		f.Add(strings.ReplaceAll(root, "\n", "\r\n"), "\"'\n\\", true)
		f.Add(bom+root, "", false)
	}
	for _, root := range inlines {
		f.Add(root, "v", false)
	}
	a := newArena(f)
	f.Fuzz(func(t *testing.T, root, option string, other bool) {
		at := Place{Root: a.path, Version: legacyVersion}
		if c := a.read(t, at, root, more(other, runcV2)); c != nil {
			checkLegacy(t, c, at, Handler{Name: "fuzz", Type: "io.containerd.fuzz.v1", Entry: "e", Options: map[string]any{"k": option}}) // an entry's keys are plain
		}
	})
}

func checkLegacy(t tester, c *Config, at Place, h Handler) {
	t.Helper()
	dir := filepath.Dir(at.Root)
	before, othersBefore, err := loadLegacy(at.Root)
	if err != nil {
		return // not a config for containerd in the first place, which is Check's to find
	}
	changes, err := c.Change([]Handler{h})
	if err != nil {
		return // refused with a reason
	}
	disk := snapshot(t, dir)
	checked := Check(t.Context(), "", c, changes, []Handler{h}, nil)
	apply(t, changes)
	after, othersAfter, err := loadLegacy(at.Root)
	if err != nil {
		t.Fatalf("containerd does not load it any more: %v\n%q", err, snapshot(t, dir))
	}
	if checked != nil && !excused(checked.Error()) {
		t.Fatalf("%v\n%q", checked, snapshot(t, dir))
	}
	had, have := criRuntimes(before), criRuntimes(after)
	ours, _ := have[h.Name].(map[string]any)
	options, _ := ours["options"].(map[string]any)
	if checked == nil && (ours["runtime_type"] != h.Type || !reflect.DeepEqual(options, h.Options)) {
		t.Fatalf("the handler is %v\n%q", ours, snapshot(t, dir))
	}
	delete(have, h.Name)
	if diff := difference(had, have, ""); len(diff) > 0 {
		t.Fatalf("other runtimes differ: %v\n%q", diff, snapshot(t, dir))
	}
	if at.NRI {
		delete(othersBefore, pluginNRI)
		delete(othersAfter, pluginNRI)
	}
	if diff := append(difference(withoutRuntimes(before), withoutRuntimes(after), ""), difference(othersBefore, othersAfter, "")...); len(diff) > 0 {
		t.Fatalf("more differs: %v\n%q", diff, snapshot(t, dir))
	}
	if again := plan(t, at, h); len(again) != 0 {
		t.Fatalf("not idempotent: %+v", again)
	}
	apply(t, plan(t, at))
	if got := snapshot(t, dir); !maps.Equal(disk, got) {
		t.Fatalf("not restored:\n%q\n%q", disk, got)
	}
}
