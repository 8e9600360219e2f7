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

// created is a root file that we made, without its imports.
var created = fmt.Appendf(nil, "# made by quiesce, there was no config\nversion = %d\n", createVersion)

// Change says which files must change so that exactly want are our handlers. Nothing to do is an empty slice. The order
// is safe: what is imported is there first, and what is removed is no longer imported.
func (c *Config) Change(want []Handler) ([]Change, error) {
	dir := c.dropinDir()
	files, err := c.dropins(dir, want)
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
	root, err := c.rootChange(len(want) > 0 && dir == c.ownDir())
	if err != nil {
		return nil, err
	}
	return slices.Concat(writes, root, removals), nil
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
		if _, twice := files[path]; twice {
			return nil, fmt.Errorf("handler %q is wanted twice", h.Name)
		}
		if where, ok := c.Foreign(h.Name); ok {
			return nil, fmt.Errorf("%s: has a handler %q that is not quiesce's; remove it there or choose another name", where, h.Name)
		}
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

// rootChange brings our import into the root file when it is needed and takes it out when it is not.
func (c *Config) rootChange(needed bool) ([]Change, error) {
	own, pattern := c.importsOwn(), c.ownPattern()
	switch {
	case needed && c.root == nil:
		data, err := splice(created, pattern)
		return []Change{{Path: c.target, New: data, Mode: 0o644}}, err
	case needed && !own && !slices.Contains(c.importedDirs(), c.ownDir()):
		data, err := splice(c.root.data, pattern)
		if err != nil {
			return nil, err
		}
		return c.rewrite(data, append([]string{pattern}, c.root.imports...))
	case !needed && own:
		data, err := unsplice(c.root.data, pattern)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(data, created) {
			return c.rewrite(nil, nil)
		}
		return c.rewrite(data, without(c.root.imports, pattern))
	}
	return nil, nil
}

// without is list less the first element that equals item.
func without(list []string, item string) []string {
	i := slices.Index(list, item)
	return slices.Concat(list[:i], list[i+1:])
}

func (c *Config) rewrite(data []byte, imports []string) ([]Change, error) {
	if data != nil {
		if err := sameBut(c.target, c.root.data, data, imports); err != nil {
			return nil, err
		}
	}
	return []Change{{Path: c.target, Old: c.root.data, New: data, Mode: c.attr.mode, UID: c.attr.uid, GID: c.attr.gid}}, nil
}

// onDisk is what a drop-in of ours has now; nil when it is not there.
func (c *Config) onDisk(path string) []byte {
	if in, ok := c.ours[path]; ok {
		return in.data
	}
	return nil
}
