package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	serverconfig "github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/log"
	"github.com/containerd/plugin"
	tomlv1 "github.com/pelletier/go-toml"
	"github.com/pelletier/go-toml/v2"
	"github.com/sirupsen/logrus"
)

// judges tell what a containerd makes of the files as they lie there, CRI's runtimes under the id that it reads only.
//
//   - 2.3, 2.4: containerd's own loader, which has CRI's tables moved to where version 3 has them, file by file.
//   - 2.0 to 2.2: the same loader, but the tables are moved at the end, and only if the version is below 3; that is the one of
//     the last file that names one of at least 2, at first 3 (LoadConfig and server.New of those releases).
//   - 1.7: loadLegacy.
//
// What moves is in criMigration, after plugins/cri/{runtime,images}/plugin.go, the same in all of them.
func judge(ctx context.Context, r release, path string) (map[string]any, error) {
	newest := r.newest()
	var migrations serverconfig.PluginFunc
	if newest > 3 {
		migrations = func() iter.Seq[plugin.Registration] {
			return slices.Values([]plugin.Registration{{ConfigMigration: func(_ context.Context, version int, plugins map[string]any) error {
				if version != 2 {
					return nil
				}
				return criMigration(plugins)
			}}})
		}
	}
	out := serverconfig.Config{Version: newest}
	if err := guard(func() error { return serverconfig.LoadConfigWithPlugins(quietly(ctx), path, migrations, &out) }); err != nil {
		return nil, err
	}
	version, err := out.Version, error(nil)
	if newest == 3 {
		version, err = versionBefore23(path)
	}
	switch {
	case err != nil:
		return nil, err
	case version > newest:
		return nil, fmt.Errorf("version %d is too new", version)
	case version == 2:
		if err := criMigration(out.Plugins); err != nil {
			return nil, err
		}
	}
	for _, id := range []string{pluginV1, pluginV2} {
		delete(out.Plugins, id) // nobody reads it
	}
	data, err := toml.Marshal(out)
	if err != nil {
		return nil, err
	}
	return decode(path, data)
}

func quietly(ctx context.Context) context.Context {
	return log.WithLogger(ctx, logrus.NewEntry(&logrus.Logger{Out: io.Discard, Level: logrus.PanicLevel}))
}

// versionBefore23 is the version by which 2.0 to 2.2 go.
func versionBefore23(path string) (int, error) {
	version := 3
	err := eachFile(path, func(path string) ([]string, error) {
		data, _, err := readRegular(path)
		if err != nil {
			return nil, err
		}
		var file struct {
			Version int
			Imports []string
		}
		if err := toml.Unmarshal(data, &file); err != nil {
			return nil, err
		}
		if file.Version > 1 {
			version = file.Version
		}
		return file.Imports, nil
	})
	return version, err
}

// eachFile visits a root file and what it imports in containerd's order.
func eachFile(path string, visit func(path string) (imports []string, err error)) error {
	loaded := map[string]bool{}
	for pending := []string{path}; len(pending) > 0; pending = pending[1:] {
		if loaded[pending[0]] {
			continue
		}
		loaded[pending[0]] = true
		imports, err := visit(pending[0])
		if err != nil {
			return err
		}
		for _, pattern := range imports {
			matches := []string{absolute(pending[0], pattern)}
			if strings.Contains(pattern, "*") {
				if matches, err = filepath.Glob(matches[0]); err != nil {
					return err
				}
			}
			pending = append(pending, matches...)
		}
	}
	return nil
}

// imagesKeys are the keys of CRI's containerd table that go to the plugin of images, and only when there are runtimes.
var imagesKeys = []string{"snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers"}

// criMigration moves the tables of CRI of version 2 to where version 3 has them, as far as an edit can change what comes of
// it. An error is a panic of containerd's.
func criMigration(plugins map[string]any) error {
	src, ok := plugins[pluginV2].(map[string]any)
	if !ok {
		return nil
	}
	dst, ok := plugins[pluginV3].(map[string]any)
	if !ok {
		dst = map[string]any{}
	}
	plugins[pluginV3] = dst
	moved := map[string]any{} // to the plugin of images
	plugins["moved"] = moved
	for key, value := range src {
		if _, has := dst[key]; !has && key != "containerd" {
			dst[key] = value // some to other plugins, which is the same for what differs
		}
	}
	from, ok := src["containerd"].(map[string]any)
	if !ok {
		return nil
	}
	to, ok := dst["containerd"].(map[string]any)
	if !ok {
		to = map[string]any{}
	}
	dst["containerd"] = to
	for key, value := range from {
		if _, has := to[key]; !has && !slices.Contains(imagesKeys, key) {
			to[key] = value
		}
	}
	if _, has := from["runtimes"]; has {
		for _, key := range imagesKeys {
			if value, has := from[key]; has {
				moved[key] = value
			}
		}
	}
	runtimes, has := to["runtimes"]
	if !has {
		return nil
	}
	table, ok := runtimes.(map[string]any)
	if !ok {
		return errors.New("runtimes is no table")
	}
	for name, runtime := range table {
		if _, ok := runtime.(map[string]any); !ok {
			return fmt.Errorf("runtime %q is no table", name)
		}
	}
	return nil
}

// loadLegacy is the loader of containerd 1.7, with its own TOML library: files in order, each plugin's table whole
// (LoadConfig and mergeConfig in services/server/config/config.go). It gives the table of CRI as that containerd finds
// it, and the other plugins' tables.
func loadLegacy(path string) (cri, others map[string]any, err error) {
	version, plugins := int64(1), map[string]any{}
	err = eachFile(path, func(path string) ([]string, error) {
		tree, err := tomlv1.LoadFile(path)
		if err != nil {
			return nil, err
		}
		var file struct {
			Version int                    `toml:"version"`
			Imports []string               `toml:"imports"`
			Plugins map[string]tomlv1.Tree `toml:"plugins"`
		}
		if err := tree.Unmarshal(&file); err != nil {
			return nil, err
		}
		if file.Version != 0 {
			version = int64(file.Version)
		}
		for id, table := range file.Plugins {
			plugins[id] = table.ToMap()
		}
		return file.Imports, nil
	})
	id := pluginV2
	if version == 1 {
		id = pluginV1
	}
	cri, _ = plugins[id].(map[string]any)
	delete(plugins, id)
	return cri, plugins, err
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
