package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
)

// virtual makes a config whose drop-ins somebody merges into one file (k0s pkg/component/worker/containerd) look as if the
// root imported them itself: an import of the directory, and the merged file without what is ours.
func (at Place) virtual(path string) ([]Change, error) {
	if at.Dropins == "" {
		return nil, nil
	}
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	root, a, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := splice(root, filepath.Join(at.Dropins, "*.toml"))
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
