package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// texts are the files of others that may have, or get, something of ours.
func (c *Config) texts() []*source {
	var out []*source
	if c.template != nil {
		out = append(out, c.template)
	}
	for _, s := range c.sources {
		made := slices.ContainsFunc(c.virtual, func(ch Change) bool { return ch.Path == s.path || ch.Path == s.target })
		if !s.ours && !s.broken && !made { // who makes a file has the last word
			out = append(out, s)
		}
	}
	return out
}

// rewrite edits the files of others: our part in the owning one, the import of our drop-ins in the root, and the
// handlers that are adopted or given back where they are.
func (c *Config) rewrite(want []Handler, inPlace, imports bool) ([]Change, error) {
	texts := c.texts()
	var owner *source
	if inPlace {
		owner = c.owner()
	}
	if c.root == nil && (imports || owner != nil && owner != c.template) {
		made := &source{path: c.path, target: c.target, attr: newAttr()}
		if owner != nil {
			owner = made
		}
		texts = append(texts, made)
	}
	var out []Change
	for _, s := range texts {
		if s == c.root && c.template != nil {
			continue // whoever makes it has the last word
		}
		e := edit{c: c, s: s, want: want, owner: s == owner, imports: imports && s.path == c.path}
		data, err := e.apply()
		if err != nil {
			return nil, err
		}
		if (s.data == nil) != (data == nil) || !bytes.Equal(s.data, data) {
			out = append(out, Change{Path: s.target, Old: s.data, New: data, Mode: s.attr.mode, UID: s.attr.uid, GID: s.attr.gid})
		}
	}
	return out, nil
}

// owner is the file that our tables belong into: the template; or the file whose table of CRI is the one that counts,
// which before 2.0 is the last one; or the root, which nil stands for when it is not there.
func (c *Config) owner() *source {
	if c.template != nil {
		return c.template
	}
	owner := c.root
	if owner == nil {
		return &source{path: c.path}
	}
	if d, err := c.domain(); err == nil && c.release.legacy() {
		for _, s := range c.sources {
			if !s.ours && s.plugin(d.plugin) != nil {
				owner = s
			}
		}
	}
	return owner
}

// edit is what happens to one file.
type edit struct {
	c       *Config
	s       *source
	want    []Handler
	owner   bool // our tables go here
	imports bool // and here the import of our drop-ins
}

func (e edit) wanted(name string) bool {
	return slices.ContainsFunc(e.want, func(h Handler) bool { return h.Name == name })
}

// apply gives the file's new bytes; nil: it is to be removed, or need not be made.
func (e edit) apply() ([]byte, error) {
	text, inner, err := e.region()
	if err != nil {
		return nil, err
	}
	data, made := e.s.data, e.blank()
	if data == nil {
		if data = made; text == "" && !e.imports {
			return nil, nil
		}
	}
	was, at := e.s.region, 0
	if was != nil {
		if data, at, err = was.takeOut(e.s.path, data, ""); err != nil {
			return nil, err
		}
	}
	if text != "" {
		data = putInline(putRegion(data, was, at, text), inner) // first of all: its place is known by what is before it
	}
	if e.s != e.c.template {
		if data, err = e.others(data); err != nil {
			return nil, err
		}
	}
	if made != nil && bytes.Equal(data, made) {
		return nil, nil
	}
	return data, nil
}

// blank is the file as we make it where there is none.
func (e edit) blank() []byte {
	switch {
	case e.s == e.c.template && strings.HasSuffix(e.s.path, ".tmpl"):
		return base
	case e.s == e.c.template:
		return []byte{}
	case e.s.path == e.c.path:
		return e.c.created()
	}
	return nil
}

// region is the text of our part of the file, and what goes into inline tables; empty: there is to be none.
func (e edit) region() (string, []inserted, error) {
	if !e.owner || len(e.want) == 0 {
		return "", nil, nil
	}
	d, err := e.c.domain()
	if err != nil {
		return "", nil, err
	}
	shape := e.s
	if e.s == e.c.template {
		shape = e.c.shape
	}
	kept := map[string]map[string]any{}
	if e.c.release.legacy() && !shape.namesRuntimes(d.plugin) {
		kept = builtinLegacy()
	}
	want := slices.Clone(e.want)
	slices.SortFunc(want, func(a, b Handler) int { return strings.Compare(a.Name, b.Name) })
	path := []string{"plugins", d.plugin, "containerd", "runtimes"}
	if !e.c.release.legacy() {
		path = shape.spelled(path)
	}
	text, err := renderRegion(want, kept, path)
	if err != nil {
		return "", nil, err
	}
	nri, err := e.c.nriText()
	if err != nil {
		return "", nil, err
	}
	if e.s == e.c.template {
		return nri + text, nil, e.c.templateTakes(nri + text)
	}
	return e.inlined(nri, text, path, kept, want)
}

// spelled is the path of a table as the file writes it: containerd since 2.0 does not count case, and TOML does.
func (s *source) spelled(path []string) []string {
	if s == nil {
		return path
	}
	if s.top != "" {
		path[0] = s.top
	}
	table := s.plugin(path[1])
	for i := 2; i < len(path); i++ {
		for _, key := range sortedKeys(table) {
			if strings.EqualFold(key, path[i]) {
				path[i] = key
			}
		}
		table, _ = table[path[i]].(map[string]any)
	}
	return path
}

// namesRuntimes tells whether the file has a table of runtimes, empty or not, as containerd before 2.0 looks for it.
func (s *source) namesRuntimes(plugin string) bool {
	if s == nil {
		return false
	}
	table, _ := s.plugin(plugin)["containerd"].(map[string]any)
	_, has := table["runtimes"]
	return has
}

// others edits what is not ours: the import of our drop-ins, the table of NRI, and the handlers that are adopted or given
// back.
func (e edit) others(data []byte) ([]byte, error) {
	imports := e.s.imports
	var err error
	if e.s.path == e.c.path {
		if data, imports, err = e.rootImports(data); err != nil {
			return nil, err
		}
	}
	data = e.nri(data)
	data, _ = giveBack(data, func(name string) bool { return e.wanted(name) || !slices.Contains(e.s.adopted, name) })
	for _, h := range e.want {
		if _, foreign := e.c.Foreign(h.Name); foreign && h.Adopt && e.s.has(h.Name) {
			data = takeOver(data, h.Name)
		}
	}
	return data, e.prove(data, imports)
}

// rootImports brings our import into the root file when it is needed and takes it out when it is not.
func (e edit) rootImports(data []byte) (_ []byte, imports []string, err error) {
	own, pattern := e.c.importsOwn(), e.c.ownPattern()
	switch {
	case e.imports && !own && !slices.Contains(e.c.importedDirs(), e.c.ownDir()):
		data, err = splice(data, pattern)
		return data, append([]string{pattern}, e.s.imports...), err
	case !e.imports && own:
		data, err = unsplice(data, pattern)
		return data, without(e.s.imports, pattern), err
	}
	return data, e.s.imports, nil
}

// without is list less the first element that equals item.
func without(list []string, item string) []string {
	i := slices.Index(list, item)
	return slices.Concat(list[:i], list[i+1:])
}

// prove makes sure that an edit changed what it was to change and nothing else, and that the result is TOML.
func (e edit) prove(data []byte, imports []string) error {
	if bytes.Equal(data, e.s.data) {
		return nil
	}
	after, err := parse(e.s.path, data, e.c.release)
	if err != nil {
		return err
	}
	bare := e.s.bare
	if e.s.data == nil {
		bare = e.blank()
	}
	before, err := decode(e.s.path, bare)
	if err != nil {
		return err
	}
	is, err := decode(e.s.path, after.bare)
	if err != nil {
		return err
	}
	dropFold(before, "imports")
	dropFold(is, "imports")
	if diff := difference(before, is, ""); len(diff) > 0 || !slices.Equal(after.imports, imports) {
		return fmt.Errorf("%s: could not be edited without touching more: %s; edit it by hand", e.s.path, strings.Join(diff, ", "))
	}
	whole := data
	if e.c.release.legacy() {
		whole = bytes.TrimPrefix(data, []byte(bom))
	}
	tree, err := decode(e.s.path, whole)
	if err != nil {
		return fmt.Errorf("add quiesce's part: what it adds to is there in a form that cannot be added to; write it as [tables], and a handler that is to be adopted too: %w", err)
	}
	return e.taken(tree)
}

// taken makes sure that of an adopted handler nothing is left.
func (e edit) taken(tree map[string]any) error {
	for _, h := range e.want {
		if e.owner || !e.s.has(h.Name) {
			continue // TOML itself allows a table once only
		}
		if _, left := runtimesOf(tree)[h.Name]; left {
			return fmt.Errorf("%s: handler %q cannot be adopted in the form in which it is written there; remove it by hand, or choose another name", e.s.path, h.Name)
		}
	}
	return nil
}

// has tells whether the file has a runtime that is not ours.
func (s *source) has(name string) bool {
	return slices.ContainsFunc(criPlugins, func(id string) bool { _, ok := s.runtimes(id)[name]; return ok })
}
