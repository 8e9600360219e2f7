package config

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Change is one file to write, replace or remove.
type Change struct {
	Path     string
	Old      []byte // nil: the file is not there
	New      []byte // nil: remove it
	Mode     fs.FileMode
	UID, GID int
}

// created is a root file that we made, without what we put into it.
func (c *Config) created() []byte {
	return fmt.Appendf(nil, "# made by quiesce, there was no config\nversion = %d\n", c.createVersion())
}

func (c *Config) createVersion() int {
	if c.release.legacy() {
		return createLegacy
	}
	return createVersion
}

// Change says which files must change so that exactly want are our handlers. Nothing to do is an empty slice. The order
// is safe: what is imported is there first, and what is removed is no longer imported.
func (c *Config) Change(want []Handler) ([]Change, error) {
	if err := c.conflicts(want); err != nil {
		return nil, err
	}
	want = c.inherit(want)
	var files map[string][]byte
	var err error
	inPlace := c.inPlace()
	dir := c.dropinDir()
	if !inPlace {
		if files, err = c.dropins(dir, want); err != nil {
			return nil, err
		}
	}
	texts, err := c.rewrite(want, inPlace, len(files) > 0 && dir == c.ownDir())
	if err != nil {
		return nil, err
	}
	var writes, removals []Change
	for _, path := range sortedKeys(files) {
		old := c.onDisk(path)
		if !bytes.Equal(old, files[path]) {
			writes = append(writes, Change{Path: path, Old: old, New: files[path], Mode: 0o644})
		}
	}
	for _, path := range sortedKeys(c.ours) {
		if _, stays := files[path]; !stays {
			removals = append(removals, Change{Path: path, Old: c.onDisk(path), Mode: 0o644})
		}
	}
	changes := slices.Concat(writes, texts, removals)
	return changes, c.patterns(changes)
}

// patterns refuses changes that a pattern of the imports stumbles over: a directory that has to be made and that it takes for
// a config file, and a name at which it shows to be malformed.
func (c *Config) patterns(changes []Change) error {
	for _, ch := range changes {
		for path := ch.Path; ch.New != nil; path = filepath.Dir(path) {
			if _, err := os.Stat(path); err == nil && path != ch.Path {
				break
			}
			for _, s := range c.sources {
				if err := s.stumbles(path, path != ch.Path); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *source) stumbles(path string, dir bool) error {
	for _, pattern := range s.imports {
		full := absolute(s.path, pattern)
		if !strings.Contains(full, "*") {
			continue
		}
		for part := range strings.SplitSeq(full, "/") { // each is matched with the names of a directory
			if _, err := filepath.Match(part, filepath.Base(path)); err != nil {
				return s.errorf("imports", "imports %q: %w; correct it", pattern, err)
			}
		}
		if taken, _ := filepath.Match(full, path); taken && dir {
			return s.errorf("imports", "imports %q, which would take the new directory %s for a config file; make the pattern end in .toml", pattern, path)
		}
	}
	return nil
}

// conflicts refuses what cannot be added to, and handlers that are somebody else's, unless they are to be adopted.
func (c *Config) conflicts(want []Handler) error {
	for _, s := range c.sources {
		if err := c.readable(s); err != nil && len(want) > 0 {
			return err
		}
	}
	seen := map[string]bool{}
	for _, h := range want {
		if seen[h.Name] {
			return fmt.Errorf("handler %q is wanted twice", h.Name)
		}
		seen[h.Name] = true
		where, foreign := c.Foreign(h.Name)
		switch {
		case foreign && h.Name == builtin:
			return fmt.Errorf("handler %q is containerd's own (%s), which quiesce leaves alone; choose another name", h.Name, where)
		case foreign && !h.Adopt:
			return fmt.Errorf("handler %q is already configured in %s, and not by quiesce: remove it there, choose another name, or have quiesce adopt it (--adopt), which replaces it and gives it back at removal", h.Name, where)
		case foreign && c.template != nil:
			return fmt.Errorf("handler %q is already configured in %s, which is made anew at each start, so it cannot be adopted; remove it where it comes from, or choose another name", h.Name, where)
		}
	}
	return nil
}

// readable refuses what containerd takes a file for, and somebody who reads it does not.
func (c *Config) readable(s *source) error {
	switch {
	case c.release.legacy() && s.odd != "":
		return s.errorf(s.odd, "containerd before 2.0 reads over the key %q; write it in lower case", s.odd)
	case s.oddCRI != "" && c.mixed():
		return s.errorf("plugins", "the key %q of CRI stops containerd's move of older tables or not, as its case is; write it in lower case", s.oddCRI)
	case s.version < 0:
		return s.errorf("version", "config version %d is not known, the newest known one is %d; update quiesce", s.version, newestVersion)
	case s.flat != "":
		return s.errorf("plugins", "%q of CRI must be a table, or containerd's CRI does not load; correct it", s.flat)
	case !c.release.legacy() && s.version < 2 && s.plugin(pluginV1) != nil && s.plugin(pluginV2) != nil:
		return s.errorf("plugins", "has tables of both %q and %q, of which containerd takes the one or the other by chance; keep one", pluginV1, pluginV2)
	}
	return nil
}

// inPlace tells whether our tables go into a file of somebody else's: where drop-ins do not merge, and where the root is
// made from a template and imports nothing.
func (c *Config) inPlace() bool {
	if c.merges() {
		return false
	}
	return c.release.legacy() || c.template != nil && len(c.importedDirs()) == 0
}

// dropins renders the wanted handlers, by path.
func (c *Config) dropins(dir string, want []Handler) (map[string][]byte, error) {
	files := make(map[string][]byte, len(want))
	if len(want) == 0 {
		return files, nil // nothing of the root matters for taking ours away
	}
	d, err := c.domain()
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(dir, globMeta) {
		return nil, fmt.Errorf("%s: the directory's name has characters that a glob does not take literally; use another one", dir)
	}
	for _, h := range want {
		path := filepath.Join(dir, ourPrefix+h.Name+ourSuffix)
		if c.foreign[path] {
			return nil, fmt.Errorf("%s: is not quiesce's, its first line says so; move it away", path)
		}
		if files[path], err = render(h, d); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// dropinDir is where our drop-ins are, when the root imports that directory; else the best one to put them.
func (c *Config) dropinDir() string {
	dirs, own := c.importedDirs(), c.ownDir()
	if c.importsOwn() {
		dirs = append(dirs, own)
	}
	for _, dir := range dirs {
		for path := range c.ours {
			if filepath.Dir(path) == dir {
				return dir
			}
		}
	}
	if len(dirs) == 0 || slices.Contains(dirs, own) {
		return own
	}
	exists := func(dir string) bool { info, err := os.Stat(dir); return err == nil && info.IsDir() }
	return dirs[max(0, slices.IndexFunc(dirs, exists))]
}

func (c *Config) ownPattern() string { return filepath.Join(c.ownDir(), ourPattern) }

func (c *Config) importsOwn() bool {
	return c.root != nil && slices.Contains(c.root.imports, c.ownPattern())
}

// onDisk is what a drop-in of ours has now; nil when it is not there.
func (c *Config) onDisk(path string) []byte {
	if in, ok := c.ours[path]; ok {
		return in.data
	}
	return nil
}
