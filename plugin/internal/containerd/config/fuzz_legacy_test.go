package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	tomlv1 "github.com/pelletier/go-toml"
)

// loadLegacy is the loader of containerd 1.7, with its own TOML library: files in order, each plugin's table whole
// (LoadConfig and mergeConfig in services/server/config/config.go). It gives the table of CRI as that containerd finds
// it, and the other plugins' tables.
func loadLegacy(path string) (cri, others map[string]any, err error) {
	version, plugins, loaded := int64(1), map[string]any{}, map[string]bool{}
	for pending := []string{path}; len(pending) > 0; pending = pending[1:] {
		if loaded[pending[0]] {
			continue
		}
		loaded[pending[0]] = true
		tree, err := tomlv1.LoadFile(pending[0])
		if err != nil {
			return nil, nil, err
		}
		var file struct {
			Version int                    `toml:"version"`
			Imports []string               `toml:"imports"`
			Plugins map[string]tomlv1.Tree `toml:"plugins"`
		}
		if err := tree.Unmarshal(&file); err != nil {
			return nil, nil, err
		}
		if file.Version != 0 {
			version = int64(file.Version)
		}
		for id, table := range file.Plugins {
			plugins[id] = table.ToMap()
		}
		for _, pattern := range file.Imports {
			matches := []string{absolute(pending[0], pattern)}
			if strings.Contains(pattern, "*") {
				if matches, err = filepath.Glob(matches[0]); err != nil {
					return nil, nil, err
				}
			}
			pending = append(pending, matches...)
		}
	}
	id := pluginV2
	if version == 1 {
		id = pluginV1
	}
	cri, _ = plugins[id].(map[string]any)
	delete(plugins, id)
	return cri, plugins, nil
}

// criRuntimes are the runtimes that containerd 1.7 has with a table of CRI: those of the table, or the built-in one.
func criRuntimes(cri map[string]any) map[string]any {
	table, _ := cri["containerd"].(map[string]any)
	if runtimes, ok := table["runtimes"].(map[string]any); ok {
		return maps.Clone(runtimes)
	}
	return map[string]any{builtin: builtinLegacy()[builtin]}
}

// withoutRuntimes is a table of CRI less its runtimes, and less what is empty without them.
func withoutRuntimes(cri map[string]any) map[string]any {
	out := maps.Clone(cri)
	if table, ok := out["containerd"].(map[string]any); ok {
		table = maps.Clone(table)
		delete(table, "runtimes")
		out["containerd"] = table
	}
	return out
}

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
	f.Fuzz(func(t *testing.T, root, option string, other bool) {
		if strings.Contains(root, "/proc") || strings.Contains(root, "/sys") || strings.Contains(root, "/dev") {
			t.Skip("files that are different at each reading")
		}
		files := map[string]string{"config.toml": root}
		if other {
			files["conf.d/other.toml"] = runcV2
		}
		dir, path := etc(t, files)
		before, othersBefore, loadErr := loadLegacy(path)
		at := Place{Root: path, Version: legacyVersion}
		c, err := Read(at)
		if err != nil || loadErr != nil {
			return
		}
		h := Handler{Name: "fuzz", Type: "io.containerd.fuzz.v1", Entry: "e", Options: map[string]any{"k": option}} // an entry's keys are plain
		changes, err := c.Change([]Handler{h})
		if err != nil {
			return // refused with a reason
		}
		for _, ch := range changes {
			if !strings.HasPrefix(ch.Path, dir) {
				return // the root imports a directory of this machine
			}
		}
		disk := snapshot(t, dir)
		checked := Check(t.Context(), "", c, changes, []Handler{h}, nil)
		apply(t, changes)
		after, othersAfter, err := loadLegacy(path)
		if err != nil {
			t.Fatalf("containerd does not load it any more: %v\n%q", err, snapshot(t, dir))
		}
		had, have := criRuntimes(before), criRuntimes(after)
		ours, _ := have["fuzz"].(map[string]any)
		options, _ := ours["options"].(map[string]any)
		if checked == nil && (ours["runtime_type"] != h.Type || !reflect.DeepEqual(options, h.Options)) {
			t.Fatalf("the handler is %v\n%q", ours, snapshot(t, dir))
		}
		delete(have, "fuzz")
		if diff := difference(had, have, ""); len(diff) > 0 {
			t.Fatalf("other runtimes differ: %v\n%q", diff, snapshot(t, dir))
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
	})
}
