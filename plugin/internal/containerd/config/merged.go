package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

// virtual makes a config whose drop-ins somebody merges into one file (k0s before 1.36, pkg/component/worker/containerd) look
// as if the root imported them itself: an import of the directory, and the merged file without what is ours. A root that
// imports them is what it is, and one that is not there yet is made by others, and will import them; version is what it will have then.
func (at Place) virtual(path string, version int) ([]Change, error) {
	if at.Dropins == "" {
		return nil, nil
	}
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	pattern := filepath.Join(at.Dropins, "*.toml")
	root, a, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err := splice(fmt.Appendf(nil, "version = %d\n", version), pattern)
		return []Change{{Path: path, New: text, Mode: newAttr().mode}}, err
	}
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(scan(root).values, func(v value) bool { return absolute(path, v.text) == pattern }) {
		return nil, nil
	}
	text, err := splice(root, pattern)
	if err != nil {
		return nil, err
	}
	out := []Change{{Path: path, Old: root, New: text, Mode: a.mode, UID: a.uid, GID: a.gid}}
	merged, a, err := readRegular(at.Merged)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	rest, err := withoutOurs(at, merged)
	return append(out, Change{Path: at.Merged, Old: merged, New: rest, Mode: a.mode, UID: a.uid, GID: a.gid}), err
}

// merges tells whether somebody else makes the root, and brings drop-ins into it.
func (c *Config) merges() bool { return len(c.virtual) > 0 }

// patched are the sources with ours merged into the last file, as it is done for a containerd that would take only the last
// table of each plugin.
func (c *Config) patched(sources []*source) ([]*source, error) {
	last := sources[len(sources)-1]
	if !c.merges() || !c.release.legacy() || last.ours {
		return sources, nil
	}
	tree, err := decode(last.path, last.data)
	if err != nil {
		return nil, err
	}
	var out []*source
	for _, s := range sources[:len(sources)-1] {
		if !s.ours || s.broken {
			out = append(out, s)
			continue
		}
		patch, err := decode(s.path, s.data)
		if err != nil {
			return nil, err
		}
		lay(tree, patch)
	}
	data, err := toml.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", last.path, err)
	}
	all := *last
	all.data = data
	return append(out, &all), nil
}

// lay puts the keys of a tree over those of another.
func lay(onto, from map[string]any) {
	for _, key := range sortedKeys(from) {
		below, ok := from[key].(map[string]any)
		there, both := onto[key].(map[string]any)
		if ok && both {
			lay(there, below)
		} else {
			onto[key] = from[key]
		}
	}
}

func withoutOurs(at Place, merged []byte) ([]byte, error) {
	tree, err := decode(at.Merged, merged)
	if err != nil {
		return nil, err
	}
	list, err := os.ReadDir(at.Dropins)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read drop-ins: %w", err)
	}
	var names []string
	for _, item := range list {
		if name, ok := handlerOf(item.Name()); ok {
			names = append(names, name)
		}
	}
	imports := tree["imports"]
	dropRuntimes(tree, names)
	if imports != nil {
		tree["imports"] = imports
	}
	rest, err := toml.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", at.Merged, err)
	}
	return rest, nil
}
