package config

import (
	"maps"
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
		c := a.read(t, at, root, other, runcV2)
		if c == nil {
			return
		}
		before, othersBefore, err := loadLegacy(a.path)
		if err != nil {
			return // not a config for containerd in the first place, which is Check's to find
		}
		h := Handler{Name: "fuzz", Type: "io.containerd.fuzz.v1", Entry: "e", Options: map[string]any{"k": option}} // an entry's keys are plain
		changes, err := c.Change([]Handler{h})
		if err != nil {
			return // refused with a reason
		}
		disk := snapshot(t, a.dir)
		checked := Check(t.Context(), "", c, changes, []Handler{h}, nil)
		apply(t, changes)
		after, othersAfter, err := loadLegacy(a.path)
		if err != nil {
			t.Fatalf("containerd does not load it any more: %v\n%q", err, snapshot(t, a.dir))
		}
		had, have := criRuntimes(before), criRuntimes(after)
		ours, _ := have["fuzz"].(map[string]any)
		options, _ := ours["options"].(map[string]any)
		if checked == nil && (ours["runtime_type"] != h.Type || !reflect.DeepEqual(options, h.Options)) {
			t.Fatalf("the handler is %v\n%q", ours, snapshot(t, a.dir))
		}
		delete(have, "fuzz")
		if diff := difference(had, have, ""); len(diff) > 0 {
			t.Fatalf("other runtimes differ: %v\n%q", diff, snapshot(t, a.dir))
		}
		if diff := append(difference(withoutRuntimes(before), withoutRuntimes(after), ""), difference(othersBefore, othersAfter, "")...); len(diff) > 0 {
			t.Fatalf("more differs: %v\n%q", diff, snapshot(t, a.dir))
		}
		if again := plan(t, at, h); len(again) != 0 {
			t.Fatalf("not idempotent: %+v", again)
		}
		apply(t, plan(t, at))
		if got := snapshot(t, a.dir); !maps.Equal(disk, got) {
			t.Fatalf("not restored:\n%q\n%q", disk, got)
		}
	})
}
