package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/log"
	"github.com/pelletier/go-toml/v2"
	"github.com/sirupsen/logrus"
)

// Check is the preflight of changes, on a copy in a temporary directory: want are all our handlers after them, gone
// the names of those they remove. binary is the node's containerd; empty leaves its view out.
func Check(ctx context.Context, binary string, c *Config, changes []Change, want []Handler, gone []string) error {
	tmp, err := os.MkdirTemp("", "quiesce-check-")
	if err != nil {
		return fmt.Errorf("check config: %w", err)
	}
	defer os.RemoveAll(tmp) //nolint:forbidigo // our own temporary directory; a leftover breaks nothing
	changes, err = c.rendered(changes)
	if err != nil {
		return fmt.Errorf("check changed config: %w", err)
	}
	before, err := c.copyTo(filepath.Join(tmp, "before"), nil)
	if err != nil {
		return fmt.Errorf("check present config: %w", err)
	}
	after, err := c.copyTo(filepath.Join(tmp, "after"), changes)
	if err != nil {
		return fmt.Errorf("check changed config: %w", err)
	}
	e := expect{want: want, gone: gone, back: c.adopted(), nri: c.nri && c.release.legacy() || slices.ContainsFunc(c.sources, func(s *source) bool { return s.turned })}
	e.kept = !c.release.legacy() && slices.ContainsFunc(c.sources, func(s *source) bool { return s.region != nil && s.region.kept })
	load := loadTree
	if c.release.legacy() {
		load = c.legacyTree
	}
	if err := compare(ctx, load, before, after, e); err != nil {
		return err
	}
	if binary == "" {
		return nil
	}
	dump := dumper{binary: binary, dir: tmp}
	if c.release.legacy() {
		dump.none = "version = 2\n"
	}
	// The present config is dumped from its own place, so that the copies are compared with the real thing. Only when a
	// drop-in of ours is broken, and about to be mended, there is nothing that containerd could read.
	if !c.broken() && c.virtual == nil {
		before = c.path
	}
	e.full = true
	return compare(ctx, dump.tree, before, after, e)
}

type treeFunc func(ctx context.Context, path string) (map[string]any, error)

func compare(ctx context.Context, tree treeFunc, before, after string, e expect) error {
	old, err := tree(ctx, before)
	if err != nil {
		return fmt.Errorf("check present config: %w", err)
	}
	now, err := tree(ctx, after)
	if err != nil {
		return fmt.Errorf("check changed config: %w", err)
	}
	if err := e.check(old, now); err != nil {
		return fmt.Errorf("check changed config: %w", err)
	}
	return nil
}

// loadTree is what containerd's own loader makes of a config. It does not run the plugins' migrations, those are only in
// the daemon.
func loadTree(ctx context.Context, path string) (map[string]any, error) {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	quiet.SetLevel(logrus.PanicLevel) // it writes of everything it moves
	ctx = log.WithLogger(ctx, logrus.NewEntry(quiet))
	out := config.Config{Version: newestVersion}
	if _, err := os.Stat(path); err == nil {
		if err := guard(func() error { return config.LoadConfig(ctx, path, &out) }); err != nil {
			return nil, fmt.Errorf("load with containerd's loader: %w", err)
		}
	}
	data, err := toml.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("marshal what containerd's loader read: %w", err)
	}
	return decode(path, data)
}

// guard makes an error of a panic: containerd's loader has some, of a version below 0 for one.
func guard(load func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("containerd would panic: %v", r)
		}
	}()
	return load()
}

// legacyTree is what containerd before 2.0 makes of a config: a plugin's table replaces that of the files before it
// (mergeConfig in containerd 1.7 services/server/config/config.go).
func (c *Config) legacyTree(_ context.Context, path string) (map[string]any, error) {
	out, plugins := map[string]any{}, map[string]any{}
	if _, err := os.Stat(path); err != nil {
		addBuiltin(plugins, pluginV2)
		return map[string]any{"plugins": plugins}, nil //nolint:nilerr // there is no config, which is one
	}
	v := overlay(c.release, nil)
	root, err := v.load(path)
	if err != nil {
		return nil, err
	}
	sources, missing, err := v.closure(root)
	if err := errors.Join(err, missing); err != nil {
		return nil, err
	}
	for _, s := range sources {
		tree, err := decode(s.path, bytes.TrimPrefix(s.data, []byte(bom)))
		if err != nil {
			return nil, err
		}
		for _, table := range foldTables(tree, "plugins") {
			maps.Copy(plugins, table)
		}
		dropFold(tree, "plugins")
		maps.Copy(out, tree)
	}
	out["plugins"] = plugins
	delete(out, "version") // the dump of that containerd does not tell it either
	if d, err := c.domain(); err == nil && !treeSource(out).namesRuntimes(d.plugin) {
		addBuiltin(plugins, d.plugin)
	}
	return out, nil
}

// addBuiltin puts in what containerd before 2.0 has where no file has a table of runtimes.
func addBuiltin(plugins map[string]any, id string) {
	runtimes := map[string]any{}
	for name, table := range builtinLegacy() {
		runtimes[name] = table
	}
	plugin, _ := plugins[id].(map[string]any)
	if plugin == nil {
		plugin = map[string]any{}
		plugins[id] = plugin
	}
	table, _ := plugin["containerd"].(map[string]any)
	if table == nil {
		table = map[string]any{}
		plugin["containerd"] = table
	}
	table["runtimes"] = runtimes
}

// copyTo lays the config, with changes over it, out in dir and returns the copy's root file. Imports by pattern become
// a plain list of copies in containerd's order: so a pattern cannot find files that the changes remove. A file imported
// by name that does not exist is an error here, which `containerd config dump` swallows and the daemon dies of
// (containerd cmd/containerd/command/config.go, dumpConfig).
func (c *Config) copyTo(dir string, changes []Change) (string, error) {
	root := filepath.Join(dir, "config.toml")
	if err := os.Mkdir(dir, 0o700); err != nil { //nolint:forbidigo // in our own temporary directory
		return "", fmt.Errorf("make copy: %w", err)
	}
	v := overlay(c.release, slices.Concat(c.virtual, changes))
	data, ok := c.rootWith(v)
	if !ok {
		return root, nil
	}
	src, err := parse(c.path, data, c.release)
	if err != nil {
		return "", err
	}
	sources, missing, err := v.closure(src)
	if err == nil {
		err = missing
	}
	if err != nil {
		return "", err
	}
	sources = slices.DeleteFunc(sources, func(s *source) bool { return s.broken && changes == nil })
	if sources, err = c.patched(sources); err != nil {
		return "", err
	}
	names := []string{root}
	for i, s := range sources[1:] {
		names = append(names, filepath.Join(dir, fmt.Sprintf("%04d-%s", i+1, strings.ReplaceAll(filepath.Base(s.path), "*", "_"))))
	}
	for i, s := range sources {
		imports := []string{}
		if i == 0 {
			imports = names[1:]
		}
		if err := writeCopy(names[i], s, imports); err != nil {
			return "", err
		}
	}
	return root, nil
}

func (c *Config) broken() bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool { return s.broken })
}

// rootWith is the root file's content after the changes.
func (c *Config) rootWith(v view) ([]byte, bool) {
	if ch, ok := v.changes[c.target]; ok {
		return ch.New, ch.New != nil
	}
	if c.root == nil {
		return nil, false
	}
	return c.root.data, true
}

// writeCopy writes a file with its imports exchanged for a list.
func writeCopy(path string, s *source, imports []string) error {
	data, marked := bytes.CutPrefix(s.data, []byte(bom))
	if l := scan(data); l.imports[1] > 0 {
		list, err := toml.Marshal(map[string]any{"imports": slices.Clone(imports)})
		if err != nil {
			return fmt.Errorf("write copy of %s: %w", s.path, err)
		}
		data = replace(data, l.imports[0], l.imports[1], strings.TrimSuffix(string(list), "\n"))
	}
	if marked {
		data = append([]byte(bom), data...)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil { //nolint:forbidigo // in our own temporary directory
		return fmt.Errorf("write copy of %s: %w", s.path, err)
	}
	return nil
}
