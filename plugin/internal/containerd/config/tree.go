package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

func decode(path string, data []byte) (map[string]any, error) {
	tree := map[string]any{}
	if err := toml.Unmarshal(data, &tree); err != nil {
		return nil, (&source{path: path, bare: data}).syntaxError(err)
	}
	return tree, nil
}

// difference lists the keys in which two trees differ, as dotted paths. A table that is only in one of them and empty
// counts as no difference: it says nothing.
func difference(a, b map[string]any, prefix string) []string {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	var out []string
	for _, key := range sortedKeys(keys) {
		path := strings.TrimPrefix(fmt.Sprintf("%s.%s", prefix, dotted(key)), ".")
		va, inA := a[key]
		vb, inB := b[key]
		ta, tableA := va.(map[string]any)
		tb, tableB := vb.(map[string]any)
		switch {
		case (tableA || !inA) && (tableB || !inB):
			out = append(out, difference(ta, tb, path)...)
		case inA != inB || !reflect.DeepEqual(va, vb):
			out = append(out, path)
		}
	}
	return out
}

func dotted(key string) string {
	quoted, _, err := quote(key, "")
	if err != nil {
		return key
	}
	return quoted
}

// treeSource gives a whole tree, as containerd prints it, the methods of a file.
func treeSource(tree map[string]any) *source {
	plugins, _ := tree["plugins"].(map[string]any)
	return &source{plugins: plugins}
}

// runtimesOf are the runtime tables of a whole tree under either plugin id: the loader alone does not move the old ones.
func runtimesOf(tree map[string]any) map[string]any {
	s := treeSource(tree)
	out := map[string]any{}
	for _, id := range criPlugins {
		maps.Copy(out, s.runtimes(id))
	}
	return out
}

// dropRuntimes takes the named runtimes out of a tree, and what nobody compares.
func dropRuntimes(tree map[string]any, names []string) {
	dropFold(tree, "imports")
	for _, id := range criPlugins {
		for _, table := range treeSource(tree).runtimeTables(id) {
			maps.DeleteFunc(table, func(name string, _ any) bool { return slices.Contains(names, name) })
		}
	}
}

// expect is what must be true of the trees before and after; full says that they have containerd's defaults in them.
type expect struct {
	want []Handler
	gone []string
	back []string // of those gone, the ones that somebody else had before us
	full bool
	nri  bool // NRI may be turned on or off
	kept bool // what we wrote of the built-in runtime goes, for a containerd that does not forget it
}

func (e expect) check(before, after map[string]any) error {
	names := slices.Clone(e.gone)
	runtimes := runtimesOf(after)
	for _, h := range e.want {
		names = append(names, h.Name)
		if err := e.checkHandler(h, runtimes); err != nil {
			return err
		}
	}
	for _, name := range e.gone {
		if _, ok := runtimes[name]; ok && !slices.Contains(e.back, name) {
			return fmt.Errorf("handler %q would still be there; find the file that brings it", name)
		}
	}
	if err := e.checkDefault(after, runtimes); err != nil {
		return err
	}
	if err := e.checkEnabled(after, runtimesOf(before)); err != nil {
		return err
	}
	if e.kept {
		names = append(names, builtin)
	}
	dropRuntimes(before, names)
	dropRuntimes(after, names)
	if e.nri {
		for _, tree := range []map[string]any{before, after} {
			delete(treeSource(tree).plugins, pluginNRI)
		}
	}
	if diff := difference(before, after, ""); len(diff) > 0 {
		return fmt.Errorf("more would change than our handlers: %s; look at the files that the config imports", strings.Join(diff, ", "))
	}
	return nil
}

func (e expect) checkHandler(h Handler, runtimes map[string]any) error {
	table, _ := runtimes[h.Name].(map[string]any)
	if table == nil {
		return fmt.Errorf("handler %q would not be there, containerd drops its table; the config's version and tables do not fit this containerd", h.Name)
	}
	settings, options, err := h.table()
	if err != nil {
		return err
	}
	settings["runtime_type"] = h.Type
	for key, value := range settings {
		if got, ok := table[key]; !ok || !reflect.DeepEqual(got, value) {
			return fmt.Errorf("handler %q: %s would be %v instead of %v; this containerd does not know the setting so", h.Name, key, got, value)
		}
	}
	got, _ := table["options"].(map[string]any)
	for key, value := range options {
		if !reflect.DeepEqual(got[key], value) {
			return fmt.Errorf("handler %q: option %s would be %v instead of %v; this containerd does not know the option so", h.Name, key, got[key], value)
		}
	}
	return nil
}

// checkDefault wants the default runtime to exist: without it the CRI plugin does not load and the node is NotReady. A
// name that a shell still fills in says nothing (MicroK8s' containerd-template.toml is TOML with ${VAR} in strings).
func (e expect) checkDefault(tree, runtimes map[string]any) error {
	var tables []map[string]any
	for _, id := range criPlugins {
		tables = append(tables, foldTables(treeSource(tree).plugin(id), "containerd")...)
	}
	for _, table := range tables {
		for key, value := range table {
			name, _ := value.(string)
			if strings.ToLower(key) != "default_runtime_name" || name == "" || strings.Contains(name, "${") || name == builtin && !e.full {
				continue
			}
			if _, ok := runtimes[name]; !ok {
				return fmt.Errorf("default_runtime_name is %q and there is no such runtime, so containerd's CRI would not load; define it or choose another default", name)
			}
		}
	}
	return nil
}

// checkEnabled wants CRI to be there for a new handler; packages of containerd exist whose config disables it.
func (e expect) checkEnabled(tree, had map[string]any) error {
	isNew := func(h Handler) bool { _, ok := had[h.Name]; return !ok }
	list, _ := tree["disabled_plugins"].([]any)
	for _, id := range list {
		if (id == pluginV1 || id == pluginV2 || id == pluginV3) && slices.ContainsFunc(e.want, isNew) {
			return fmt.Errorf("disabled_plugins has %q, so no pod can use a handler; enable CRI first", id)
		}
	}
	return nil
}
