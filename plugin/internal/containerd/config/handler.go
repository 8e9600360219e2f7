package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Handler is one table of containerd's CRI runtimes, as quiesce renders it. Values are string, bool, int, int64,
// json.Number, []string, []any of these, or map[string]any of these.
type Handler struct {
	Name     string         // RuntimeClass.handler, an RFC 1123 label
	Type     string         // runtime_type: io.containerd.NAME.vN, or the absolute path of the shim
	Options  map[string]any // the options table
	Settings map[string]any // further keys of the runtime's table: snapshotter, pod_annotations, ...
	Entry    string         // id of the stage entry that brought it, for the header
	Adopt    bool           // a handler of somebody else's with this name is replaced, and given back at removal
}

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	typeForm  = regexp.MustCompile(`^io\.containerd\.[A-Za-z0-9][A-Za-z0-9_-]*\.v[0-9]+$`)
	entryForm = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
)

// reserved are the keys of the runtime's table that Settings must leave alone: ours, and those that choose the shim.
// A runtime_path beside a runtime_type orphans pods when containerd restarts.
var reserved = []string{"runtime_type", "runtime_path", "options"}

func (h Handler) validate() error {
	switch {
	case !nameForm.MatchString(h.Name):
		return fmt.Errorf("handler %q: the name is no RFC 1123 label; use lower-case letters, digits and dashes", h.Name)
	case !typeForm.MatchString(h.Type) && (!filepath.IsAbs(h.Type) || filepath.Clean(h.Type) != h.Type):
		return fmt.Errorf("handler %q: runtime_type %q is neither io.containerd.NAME.vN nor a clean absolute path", h.Name, h.Type)
	case !entryForm.MatchString(h.Entry):
		return fmt.Errorf("handler %q: entry id %q has characters that do not belong into an id", h.Name, h.Entry)
	}
	for key := range h.Settings {
		if slices.Contains(reserved, strings.ToLower(key)) {
			return fmt.Errorf("handler %q: setting %q is not free to choose; use the handler's own fields", h.Name, key)
		}
	}
	if twin := foldTwin(h.Settings); twin != "" {
		return fmt.Errorf("handler %q: setting %q is there twice, in different cases", h.Name, twin)
	}
	return nil
}

// table is the runtime's table as plain TOML values; options stay out of it.
func (h Handler) table() (map[string]any, map[string]any, error) {
	if err := h.validate(); err != nil {
		return nil, nil, err
	}
	settings, err := plainTable(h.Settings)
	if err != nil {
		return nil, nil, fmt.Errorf("handler %q: settings%w", h.Name, err)
	}
	options, err := plainTable(h.Options)
	if err != nil {
		return nil, nil, fmt.Errorf("handler %q: options%w", h.Name, err)
	}
	return settings, options, nil
}

func plainTable(m map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(m))
	for key, value := range m {
		if key == "" || !utf8.ValidString(key) {
			return nil, fmt.Errorf(": key %q is empty or not UTF-8", key)
		}
		v, err := plain(value)
		if err != nil {
			return nil, fmt.Errorf(".%s%w", key, err)
		}
		out[key] = v
	}
	return out, nil
}

// plain brings a value into the form that decoding TOML gives, so that what we render can be compared with it.
func plain(value any) (any, error) {
	switch v := value.(type) {
	case string:
		if !utf8.ValidString(v) {
			return nil, errors.New(": the string is not UTF-8")
		}
		return v, nil
	case bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New(": the number is not finite")
		}
		return v, nil
	case json.Number:
		return plainNumber(v)
	case []string:
		return plainSlice(v)
	case []any:
		return plainSlice(v)
	case map[string]any:
		return plainTable(v)
	}
	return nil, fmt.Errorf(": a value of type %T has no TOML form here", value)
}

func plainNumber(n json.Number) (any, error) {
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil || !strings.ContainsAny(n.String(), ".eE") {
		return nil, fmt.Errorf(": the number %s does not fit", n)
	}
	return plain(f)
}

func plainSlice[T any](s []T) (any, error) {
	out := make([]any, len(s))
	for i, value := range s {
		v, err := plain(value)
		if err != nil {
			return nil, fmt.Errorf("[%d]%w", i, err)
		}
		if _, table := v.(map[string]any); table {
			return nil, fmt.Errorf("[%d]: tables in an array are not supported", i)
		}
		out[i] = v
	}
	return out, nil
}

// foldTwin names a key that occurs twice when case does not count; go-toml fills struct fields that way.
func foldTwin(m map[string]any) string {
	seen := map[string]bool{}
	for _, key := range sortedKeys(m) {
		if seen[strings.ToLower(key)] {
			return key
		}
		seen[strings.ToLower(key)] = true
	}
	return ""
}
