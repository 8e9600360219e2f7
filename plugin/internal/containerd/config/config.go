package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of our files.
const (
	ourPrefix  = "quiesce-"
	ourSuffix  = ".toml"
	ourPattern = ourPrefix + "*" + ourSuffix
	ourDir     = "conf.d"
)

// Config is containerd's configuration as found on disk: the root file and everything it imports.
type Config struct {
	path     string // as containerd is given it; imports are relative to its directory
	target   string // the file itself, behind symlinks
	release  release
	root     *source              // nil: there is no root file
	sources  []*source            // root and what it imports, in containerd's order
	template *source              // what the root is made from; nil: nothing. It is text, and not decoded
	shape    *source              // the root, or what the template says of it
	ours     map[string]Installed // by path, in every directory where we may have put some
	nri      bool                 // Place.NRI
	virtual  []Change             // how the disk is looked at, see Place.virtual
	foreign  map[string]bool      // files with a name of ours that are not ours
}

// Read reads the root config of a place and what it imports. A missing root is a valid empty config; a symlink is
// followed and its target is what Change would rewrite.
func Read(at Place) (*Config, error) {
	r, err := parseRelease(at.Version)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(at.Root)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	c := &Config{path: path, target: path, release: r, nri: at.NRI, ours: map[string]Installed{}, foreign: map[string]bool{}}
	if err := c.readTemplate(at.Template); err != nil {
		return nil, err
	}
	if c.virtual, err = at.virtual(path, c.createVersion()); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && !c.merges() {
		if c.template != nil {
			c.shape, _ = parse(c.template.path, c.template.data, r) // most are no TOML
		}
		return c, c.readOurs()
	}
	if _, err := filepath.EvalSymlinks(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read config: follow %s: %w", path, err)
	}
	v := overlay(r, c.virtual)
	if c.root, err = v.load(path); err != nil {
		return nil, err
	}
	c.root.ours, c.target, c.shape = false, c.root.target, c.root
	if c.sources, _, err = v.closure(c.root); err != nil {
		return nil, err
	}
	return c, c.readOurs()
}

// Path is where containerd finds the root config.
func (c *Config) Path() string { return c.path }

// readOurs collects our drop-ins from every directory that may hold some.
func (c *Config) readOurs() error {
	for _, dir := range append(c.importedDirs(), c.ownDir()) {
		list, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read drop-ins: %w", err)
		}
		for _, item := range list {
			path := filepath.Join(dir, item.Name())
			name, ok := handlerOf(path)
			if !ok {
				continue
			}
			data, _, err := readRegular(path)
			if err != nil {
				return err
			}
			if in, ok := parseDropin(path, name, data); ok {
				c.ours[path] = in
			} else {
				c.foreign[path] = true
			}
		}
	}
	return nil
}

// Handlers are the handlers that are ours, sorted by name.
func (c *Config) Handlers() ([]Installed, error) {
	var all, out []Installed
	for _, path := range sortedKeys(c.ours) {
		all = append(all, c.ours[path])
	}
	for _, s := range c.texts() {
		if s == c.root && c.template != nil {
			continue // it has what the template had at the last start
		}
		if s.region != nil {
			all = append(all, s.region.handlers...)
		}
	}
	seen := map[string]string{}
	for _, in := range all {
		path := in.Path
		if other, twice := seen[in.Name]; twice {
			return nil, fmt.Errorf("%s: handler %q is in %s too; remove one of the files", path, in.Name, other)
		}
		seen[in.Name] = path
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b Installed) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Foreign says whether somebody else has a handler of this name, and in which file. One that was adopted is none.
func (c *Config) Foreign(name string) (where string, ok bool) {
	if s := c.foreignSource(name); s != nil {
		return s.path, !slices.Contains(s.adopted, name)
	}
	if name == builtin {
		return "containerd's built-in defaults", true
	}
	return "", false
}

// adopted are the names of handlers that are somebody else's and quiesce has replaced.
func (c *Config) adopted() (names []string) {
	for _, s := range c.sources {
		names = append(names, s.adopted...)
	}
	return names
}

// foreignSource is the file in which somebody else has a handler, adopted or not.
func (c *Config) foreignSource(name string) *source {
	for _, s := range c.sources {
		if s.ours {
			continue
		}
		for _, id := range criPlugins {
			if _, ok := s.runtimes(id)[name]; ok {
				return s
			}
		}
	}
	return nil
}

// ownDir is where our drop-ins go when the root imports no directory.
func (c *Config) ownDir() string { return filepath.Join(filepath.Dir(c.path), ourDir) }

// importedDirs are the directories of which the root file on disk imports every *.toml, in its order.
func (c *Config) importedDirs() []string {
	var dirs []string
	if c.root == nil {
		return nil
	}
	for _, pattern := range c.root.imports {
		dir, base := filepath.Split(absolute(c.path, pattern))
		dir = filepath.Clean(dir)
		if base == "*.toml" && !strings.ContainsAny(dir, globMeta) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// globMeta are the characters that filepath.Glob does not take literally.
const globMeta = `*?[\`

// handlerOf is the handler that a file with a name of ours is for.
func handlerOf(path string) (string, bool) {
	name, ok := strings.CutPrefix(filepath.Base(path), ourPrefix)
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, ourSuffix)
	if !ok || !nameForm.MatchString(name) {
		return "", false
	}
	return name, true
}
