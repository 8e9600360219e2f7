package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// view is the disk as a containerd sees it, with changes laid over.
type view struct {
	release release
	changes map[string]Change
}

func overlay(r release, changes []Change) view {
	v := view{release: r, changes: make(map[string]Change, len(changes))}
	for _, ch := range changes {
		v.changes[ch.Path] = ch
	}
	return v
}

// read reads a file through symlinks; target is where it really lies.
func (v view) read(path string) (data []byte, a attr, target string, err error) {
	target, err = filepath.EvalSymlinks(path)
	if err != nil {
		target = path
	}
	for _, at := range []string{path, target} {
		ch, ok := v.changes[at]
		switch {
		case ok && ch.New == nil:
			return nil, a, target, fmt.Errorf("read config: %s: %w", path, fs.ErrNotExist)
		case ok:
			return ch.New, attr{ch.Mode, ch.UID, ch.GID}, target, nil
		}
	}
	data, a, err = readRegular(path)
	return data, a, target, err
}

func (v view) glob(pattern string) ([]string, error) {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("expand %q: %w", pattern, err)
	}
	matches = slices.DeleteFunc(matches, func(path string) bool { _, ok := v.changes[path]; return ok })
	for path, ch := range v.changes {
		if ok, _ := filepath.Match(pattern, path); ok && ch.New != nil {
			matches = append(matches, path)
		}
	}
	slices.Sort(matches)
	return matches, nil
}

// closure reads the files that a root file imports, in containerd's order: breadth first, each once, globs sorted
// (LoadConfigWithPlugins and resolveImports in containerd cmd/containerd/server/config/config.go). Files that are
// imported by name and missing are not in the result but in an error of their own, because Read can live with them.
func (v view) closure(root *source) (sources []*source, missing, err error) {
	loaded := map[string]bool{root.path: true}
	sources = []*source{root}
	for i := 0; i < len(sources); i++ {
		paths, err := v.imports(sources[i])
		if err != nil {
			return nil, nil, err
		}
		for _, path := range paths {
			if loaded[path] {
				continue
			}
			loaded[path] = true
			s, err := v.load(path)
			if errors.Is(err, fs.ErrNotExist) {
				missing = errors.Join(missing, sources[i].errorf("imports", "imports %s, which does not exist, so containerd would not start; remove the import or bring the file back", path))
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			sources = append(sources, s)
		}
	}
	return sources, missing, nil
}

func (v view) imports(s *source) ([]string, error) {
	var out []string
	for _, pattern := range s.imports {
		path := absolute(s.path, pattern)
		if !strings.Contains(path, "*") {
			out = append(out, path)
			continue
		}
		matches, err := v.glob(path)
		if err != nil {
			return nil, s.errorf("imports", "%w; correct the pattern", err)
		}
		out = append(out, matches...)
	}
	return out, nil
}

// load reads one imported file. One of ours that somebody broke is no error: Change writes it anew.
func (v view) load(path string) (*source, error) {
	data, a, target, err := v.read(path)
	if err != nil {
		return nil, err
	}
	name, _ := handlerOf(path)
	_, ours := parseDropin(path, name, data)
	ours = ours && name != ""
	s, err := parse(path, data, v.release)
	if err != nil && ours {
		return &source{path: path, data: data, ours: true, broken: true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.ours, s.attr, s.target = ours, a, target
	return s, nil
}
