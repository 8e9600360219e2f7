package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// source is one config file, decoded.
type source struct {
	path    string
	target  string // the file itself, behind symlinks
	attr    attr
	data    []byte  // as it is on disk
	bare    []byte  // the same as others wrote it: without our part, and with what we adopted or turned on
	region  *region // our part
	adopted []string
	turned  bool // NRI is on in it because of us
	version int
	imports []string
	top     string // the key of plugins as it is written
	plugins map[string]any
	odd     string // a key that containerd before 2.0 reads over because of its case
	oddCRI  string // the same in the tables of CRI
	flat    string // a key that should be a table of CRI and is none
	ours    bool
	broken  bool // ours, and not TOML any more
}

// parse decodes what we need of a file and refuses what that containerd, or we, would read in two ways.
func parse(path string, data []byte, r release) (*source, error) {
	s := &source{path: path, data: data}
	var err error
	if s.region, err = findRegion(path, data); err != nil {
		return nil, err
	}
	own, err := masked(path, data, s.region)
	if err != nil {
		return nil, err
	}
	written := restoreNRI(own)
	s.turned, own = !bytes.Equal(own, written), written
	s.bare, s.adopted = giveBack(own, func(string) bool { return false })
	err = s.decode(r)
	if err != nil && len(s.adopted) > 0 {
		s.bare, s.adopted = own, nil // they have written it anew: what we keep has no place any more
		err = s.decode(r)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// decode reads the bare file.
func (s *source) decode(r release) error {
	if r.legacy() {
		s.bare = bytes.TrimPrefix(s.bare, []byte(bom))
	}
	if bytes.HasPrefix(s.bare, []byte(bom)) {
		return fmt.Errorf("%s:1: the file starts with a UTF-8 byte order mark, which containerd refuses; remove the mark", s.path)
	}
	if err := s.template(); err != nil {
		return err
	}
	var tree map[string]any
	if err := toml.Unmarshal(s.bare, &tree); err != nil {
		return s.syntaxError(err)
	}
	if twin := foldTwin(tree); twin != "" {
		return s.errorf(strings.ToLower(twin), "the key %q is there twice, in different cases; keep one", twin)
	}
	for key := range tree {
		if strings.EqualFold(key, "plugins") {
			s.top = key
		}
	}
	s.odd = oddCase(tree, "version", "imports", "plugins")
	var file struct {
		Version int
		Imports []string
		Plugins map[string]any
	}
	if err := toml.Unmarshal(s.bare, &file); err != nil {
		return s.syntaxError(err)
	}
	s.version, s.imports, s.plugins = file.Version, file.Imports, file.Plugins
	for _, id := range criPlugins {
		plugin := s.plugin(id)
		s.flat = cmp.Or(s.flat, flatKey(s.plugins, id), flatKey(plugin, "containerd"))
		twin := foldTwin(plugin)
		s.oddCRI = cmp.Or(s.oddCRI, oddCase(plugin, "containerd"))
		for _, table := range foldTables(plugin, "containerd") {
			twin = cmp.Or(twin, foldTwin(table))
			s.oddCRI = cmp.Or(s.oddCRI, oddCase(table, "runtimes", "default_runtime_name"))
			s.flat = cmp.Or(s.flat, flatKey(table, "runtimes"))
			for _, runtimes := range foldTables(table, "runtimes") {
				s.flat = cmp.Or(s.flat, flatKey(runtimes, sortedKeys(runtimes)...))
			}
		}
		if twin != "" {
			return s.errorf("plugins", "the key %q of plugin %q is there twice, in different cases; keep one", twin, id)
		}
	}
	return nil
}

// template refuses files that some program still has to render: {{ and {% mean nothing to TOML outside of strings.
func (s *source) template() error {
	var p unstable.Parser
	p.Reset(s.bare)
	for p.NextExpression() {
		if mark := templateMark(&p, p.Expression()); mark != nil {
			return s.templateError(bytes.Count(s.bare[:p.Range(mark).Offset], []byte("\n")) + 1)
		}
	}
	if p.Error() == nil {
		return nil
	}
	for i, line := range bytes.Split(s.bare, []byte("\n")) {
		if bytes.Contains(line, []byte("{{")) || bytes.Contains(line, []byte("{%")) {
			return s.templateError(i + 1)
		}
	}
	return nil
}

func templateMark(p *unstable.Parser, n *unstable.Node) []byte {
	if n.Kind == unstable.String || n.Kind == unstable.Key {
		if raw := p.Raw(n.Raw); bytes.Contains(raw, []byte("{{")) || bytes.Contains(raw, []byte("{%")) {
			return raw
		}
	}
	for it := n.Children(); it.Next(); {
		if mark := templateMark(p, it.Node()); mark != nil {
			return mark
		}
	}
	return nil
}

func (s *source) templateError(line int) error {
	return fmt.Errorf("%s:%d: this is a template ({{ or {%%), not a containerd config; give the file that containerd reads", s.path, line)
}

func (s *source) syntaxError(err error) error {
	if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := decode.Position()
		return fmt.Errorf("%s:%d: containerd cannot read this file: %w; repair it", s.path, line, err)
	}
	return fmt.Errorf("%s: containerd cannot read this file: %w; repair it", s.path, err)
}

// errorf is an error at the line of a top-level key or table, or of the file when it has none.
func (s *source) errorf(key, format string, args ...any) error {
	where := s.path
	var p unstable.Parser
	p.Reset(s.bare)
	for p.NextExpression() {
		e := p.Expression()
		it := e.Key()
		if it.Next() && strings.EqualFold(string(it.Node().Data), key) {
			where = fmt.Sprintf("%s:%d", s.path, p.Shape(it.Node().Raw).Start.Line)
			break
		}
	}
	return fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...))
}

// plugin is a plugin's table; plugin ids are matched as they are written, like containerd does.
func (s *source) plugin(id string) map[string]any {
	table, _ := s.plugins[id].(map[string]any)
	return table
}

// oddCase is a key that is one of names but for its case, which go-toml v1 of containerd before 2.0 reads over.
func oddCase(m map[string]any, names ...string) string {
	for _, key := range sortedKeys(m) {
		if lower := strings.ToLower(key); key != lower && slices.Contains(names, lower) {
			return key
		}
	}
	return ""
}

// flatKey is a key, one of names but for its case, that is no table.
func flatKey(m map[string]any, names ...string) string {
	for _, key := range sortedKeys(m) {
		named := slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, key) })
		if _, table := m[key].(map[string]any); named && !table {
			return key
		}
	}
	return ""
}

// runtimes are the runtimes of a plugin, by name. containerd decodes this part into structs, so case does not count, and
// two files may spell it in two ways.
func (s *source) runtimes(id string) map[string]any {
	out := map[string]any{}
	for _, table := range s.runtimeTables(id) {
		maps.Copy(out, table)
	}
	return out
}

func (s *source) runtimeTables(id string) []map[string]any {
	var out []map[string]any
	for _, table := range foldTables(s.plugin(id), "containerd") {
		out = append(out, foldTables(table, "runtimes")...)
	}
	return out
}

// foldTables are the tables under a name when case does not count.
func foldTables(m map[string]any, name string) []map[string]any {
	var out []map[string]any
	for _, key := range sortedKeys(m) {
		if table, ok := m[key].(map[string]any); ok && strings.ToLower(key) == name {
			out = append(out, table)
		}
	}
	return out
}

// attr are the attributes of a file that a rewrite must keep.
type attr struct {
	mode     fs.FileMode
	uid, gid int
}

// newAttr are the attributes of a file that was not there.
func newAttr() attr { return attr{mode: 0o644} }

// readRegular reads a file through symlinks; anything but a regular file is an error, a FIFO must not hang us.
func readRegular(path string) ([]byte, attr, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, attr{}, fmt.Errorf("read config: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, attr{}, fmt.Errorf("read config: %s is not a regular file; containerd would not start with it", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, attr{}, fmt.Errorf("read config: %w", err)
	}
	if data == nil {
		data = []byte{}
	}
	a := attr{mode: info.Mode().Perm()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.uid, a.gid = int(st.Uid), int(st.Gid)
	}
	return data, a, nil
}

func absolute(parent, path string) string {
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(parent), path)
	}
	return path
}
