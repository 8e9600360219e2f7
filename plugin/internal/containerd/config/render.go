package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// The header of a drop-in. The digest is of everything below the blank line, so that a hand's edit shows.
const (
	headManaged = "# managed by quiesce, do not edit\n"
	headEntry   = "# entry: "
	headDigest  = "# sha256: "
)

// render gives the bytes of a handler's drop-in. The same handler and domain always give the same bytes.
func render(h Handler, d domain) ([]byte, error) {
	stamp := ""
	if d.stamp {
		stamp = "version = 2\n\n"
	}
	body, err := renderBody(h, []string{"plugins", d.plugin, "containerd", "runtimes"}, stamp)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	head := headManaged + headEntry + h.Entry + "\n" + headDigest + hex.EncodeToString(sum[:]) + "\n\n"
	return append([]byte(head), body...), nil
}

// renderBody gives a handler's table below the table at path, behind a stamp.
func renderBody(h Handler, path []string, stamp string) ([]byte, error) {
	settings, options, err := h.table()
	if err != nil {
		return nil, err
	}
	settings["runtime_type"] = h.Type
	if len(options) > 0 {
		settings["options"] = options
	}
	var body bytes.Buffer
	body.WriteString(stamp)
	path = append(slices.Clone(path), h.Name)
	if err := renderTable(&body, path, settings); err != nil {
		return nil, fmt.Errorf("render handler %q: %w", h.Name, err)
	}
	if err := readsBack(body.Bytes(), path, settings); err != nil {
		return nil, fmt.Errorf("render handler %q: %w", h.Name, err)
	}
	return body.Bytes(), nil
}

// renderTable writes a table under its full header, then its sub-tables. Quoting is go-toml's, for keys too.
func renderTable(out *bytes.Buffer, path []string, table map[string]any) error {
	keys := make([]string, len(path))
	for i, key := range path {
		k, _, err := quote(key, "")
		if err != nil {
			return err
		}
		keys[i] = k
	}
	fmt.Fprintf(out, "[%s]\n", strings.Join(keys, "."))
	var tables []string
	for _, key := range sortedKeys(table) {
		if _, ok := table[key].(map[string]any); ok {
			tables = append(tables, key)
			continue
		}
		line, err := toml.Marshal(map[string]any{key: table[key]})
		if err != nil {
			return fmt.Errorf("marshal %q: %w", key, err)
		}
		out.Write(line)
	}
	for _, key := range tables {
		out.WriteString("\n")
		if err := renderTable(out, append(slices.Clone(path), key), table[key].(map[string]any)); err != nil {
			return err
		}
	}
	return nil
}

// quote gives a key and a string in go-toml's own quoting.
func quote(key, value string) (quotedKey, quotedValue string, err error) {
	k, err := toml.Marshal(map[string]any{key: ""})
	if err != nil {
		return "", "", fmt.Errorf("marshal key %q: %w", key, err)
	}
	v, err := toml.Marshal(map[string]any{"k": value})
	if err != nil {
		return "", "", fmt.Errorf("marshal string %q: %w", value, err)
	}
	return strings.TrimSuffix(string(k), " = ''\n"), strings.TrimSuffix(strings.TrimPrefix(string(v), "k = "), "\n"), nil
}

// readsBack proves that the rendered text means what was asked for, whatever was in the strings.
func readsBack(body []byte, path []string, want map[string]any) error {
	var tree map[string]any
	if err := toml.Unmarshal(body, &tree); err != nil {
		return fmt.Errorf("parse what was rendered: %w", err)
	}
	delete(tree, "version")
	for _, key := range path {
		sub, ok := tree[key].(map[string]any)
		if !ok || len(sub) == 0 {
			return fmt.Errorf("parse what was rendered: no table %q", key)
		}
		tree = sub
	}
	if !reflect.DeepEqual(tree, want) {
		return fmt.Errorf("parse what was rendered: it reads %v, wanted %v", tree, want)
	}
	return nil
}

// Installed is a handler of ours as its drop-in has it.
type Installed struct {
	Handler

	Path   string // the drop-in
	data   []byte
	Intact bool // its digest is right: nobody edited it. Otherwise only Name, Entry and Path are sure
}

// parseDropin reads a drop-in back; ok says that it is ours at all, by its first line.
func parseDropin(path, name string, b []byte) (in Installed, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte(headManaged))
	if !ok {
		return in, false
	}
	in = Installed{Handler: Handler{Name: name}, Path: path, data: b}
	entry, rest, _ := bytes.Cut(rest, []byte("\n"))
	digest, rest, _ := bytes.Cut(rest, []byte("\n"))
	body, found := bytes.CutPrefix(rest, []byte("\n"))
	id, isEntry := strings.CutPrefix(string(entry), headEntry)
	if isEntry {
		in.Entry = id
	}
	sum := sha256.Sum256(body)
	if !isEntry || !found || string(digest) != headDigest+hex.EncodeToString(sum[:]) {
		return in, true
	}
	in.Intact = in.readBody(body)
	return in, true
}

// readBody fills in the handler from a body that render wrote.
func (in *Installed) readBody(body []byte) bool {
	var file struct {
		Version int
		Plugins map[string]struct {
			Containerd struct{ Runtimes map[string]map[string]any }
		}
	}
	if toml.Unmarshal(body, &file) != nil || len(file.Plugins) != 1 {
		return false
	}
	for _, plugin := range file.Plugins {
		table, ok := plugin.Containerd.Runtimes[in.Name]
		if !ok || len(plugin.Containerd.Runtimes) != 1 {
			return false
		}
		in.Type, _ = table["runtime_type"].(string)
		in.Options, _ = table["options"].(map[string]any)
		delete(table, "runtime_type")
		delete(table, "options")
		if len(table) > 0 {
			in.Settings = table
		}
	}
	return in.validate() == nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
