package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// view is the disk with changes laid over it.
type view map[string]Change

func overlay(changes []Change) view {
	v := make(view, len(changes))
	for _, ch := range changes {
		v[ch.Path] = ch
	}
	return v
}

func (v view) read(path string) ([]byte, error) {
	if ch, ok := v[path]; ok {
		if ch.New == nil {
			return nil, fmt.Errorf("read config: %s: %w", path, fs.ErrNotExist)
		}
		return ch.New, nil
	}
	data, _, err := readRegular(path)
	return data, err
}

func (v view) glob(pattern string) ([]string, error) {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("expand %q: %w", pattern, err)
	}
	matches = slices.DeleteFunc(matches, func(path string) bool { _, ok := v[path]; return ok })
	for path, ch := range v {
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
	data, err := v.read(path)
	if err != nil {
		return nil, err
	}
	name, _ := handlerOf(path)
	_, ours := parseDropin(path, name, data)
	ours = ours && name != ""
	s, err := parse(path, data)
	if err != nil && ours {
		return &source{path: path, data: data, ours: true, broken: true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.ours = ours
	return s, nil
}
