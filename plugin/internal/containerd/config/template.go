package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// base is a template of k3s and rke2 that says nothing of its own; we make it where there is none.
var base = []byte("{{/* made by quiesce, there was no template */ -}}\n{{ template \"base\" . }}\n")

// templateMarks are what the renderers of templates look for: those of Go, and MicroK8s' shell variables.
var templateMarks = []string{"{{", "${"}

// readTemplate reads the file that the root is made from. It is no TOML: only our part of it is looked at.
func (c *Config) readTemplate(path string) error {
	if path == "" {
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	path = c.templateThatCounts(path)
	data, a, target, err := overlay(c.release, nil).read(path)
	if errors.Is(err, fs.ErrNotExist) {
		c.template = &source{path: path, target: target, attr: newAttr()}
		return nil
	}
	if err != nil {
		return err
	}
	c.template = &source{path: path, target: target, attr: a, data: data}
	c.template.region, err = findRegion(path, data)
	return err
}

// templateThatCounts is the one that k3s and rke2 read: config-v3.toml.tmpl when they bring containerd 2 and it is there,
// and else config.toml.tmpl, if that is (k3s docs, advanced options).
func (c *Config) templateThatCounts(path string) string {
	dir, name := filepath.Split(path)
	if name != "config-v3.toml.tmpl" {
		return path
	}
	older := filepath.Join(dir, "config.toml.tmpl")
	if c.release.legacy() {
		return older
	}
	_, err := os.Lstat(path)
	_, olderErr := os.Lstat(older)
	if errors.Is(err, fs.ErrNotExist) && olderErr == nil {
		return older
	}
	return path
}

// templateTakes refuses text that the renderer of the template would take for its own.
func (c *Config) templateTakes(text string) error {
	for _, mark := range templateMarks {
		if strings.Contains(text, mark) {
			return fmt.Errorf("%s: this template cannot hold a handler with %q in a value; choose another value", c.template.path, mark)
		}
	}
	return nil
}

// rendered turns the change of the template into what it makes of the root: the same part of ours, at its end.
func (c *Config) rendered(changes []Change) ([]Change, error) {
	if c.template == nil {
		return changes, nil
	}
	out := make([]Change, 0, len(changes)+1)
	for _, ch := range changes {
		if ch.Path != c.template.target {
			out = append(out, ch)
			continue
		}
		r, err := findRegion(ch.Path, ch.New)
		if err != nil {
			return nil, err
		}
		root := c.withoutRegion()
		if r != nil {
			text := strings.SplitAfterN(string(ch.New[r.span[0]:r.span[1]]), regionBegin, 2)[1]
			_, text, _ = strings.Cut(text, "\n")
			root = putRegion(root, nil, 0, strings.TrimSuffix(text, regionEnd+"\n"))
		}
		out = append(out, Change{Path: c.target, Old: c.rootData(), New: root, Mode: 0o644})
	}
	return out, nil
}

// withoutRegion is the root without our part.
func (c *Config) withoutRegion() []byte {
	switch {
	case c.root == nil:
		return fmt.Appendf(nil, "version = %d\n", c.createVersion())
	case c.root.region == nil:
		return c.root.data
	}
	return replace(c.root.data, c.root.region.span[0], c.root.region.span[1], "")
}

func (c *Config) rootData() []byte {
	if c.root == nil {
		return nil
	}
	return c.root.data
}
