// Package values turns what is given as text into the values of a runtime's tables.
package values

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quiesce/installer/internal/refusal"
)

// Typed is the value that a text means: true and false, whole numbers, JSON lists of strings, quoted text, or the text itself.
func Typed(s string) any {
	if s == "true" || s == "false" {
		return s == "true"
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
		return n
	}
	var list []string
	if strings.HasPrefix(s, "[") && json.Unmarshal([]byte(s), &list) == nil {
		return anys(list)
	}
	var text string
	if strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil {
		return text
	}
	return s
}

// Text is the text itself.
func Text(s string) any { return s }

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = strings.TrimSpace(s)
	}
	return out
}

// Table collects KEY=VALUE assignments. The zero value is empty and ready.
type Table map[string]any

// Set makes assignments, one per line of each text. Dots in a key nest.
func (t *Table) Set(texts []string, value func(string) any) error {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			key, v, ok := strings.Cut(line, "=")
			if !ok || key == "" {
				return refusal.New("%q: must be KEY=VALUE", line)
			}
			if err := t.put(strings.Split(key, "."), value(v), key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Table) put(path []string, v any, key string) error {
	if *t == nil {
		*t = Table{}
	}
	m := map[string]any(*t)
	for _, k := range path[:len(path)-1] {
		next, ok := m[k].(map[string]any)
		if !ok {
			if _, taken := m[k]; taken {
				return refusal.New("%s: %s already has a value of its own", key, k)
			}
			next = map[string]any{}
			m[k] = next
		}
		m = next
	}
	last := path[len(path)-1]
	if _, nested := m[last].(map[string]any); nested {
		return refusal.New("%s: already has keys below it", key)
	}
	m[last] = v
	return nil
}

// Setting is Typed for --set: the keys that hold lists take a comma list too.
func Setting(texts []string) (map[string]any, error) {
	var t Table
	if err := t.Set(texts, Typed); err != nil {
		return nil, err
	}
	for _, k := range slices.Sorted(maps.Keys(t)) {
		if s, ok := t[k].(string); ok && strings.HasSuffix(k, "_annotations") {
			t[k] = anys(strings.Split(s, ","))
		}
	}
	return t, nil
}

// FromJSON reads a JSON object of texts, the RUNTIME_OPTIONS of runtime-class-manager.
func FromJSON(s string) (Table, error) {
	if s == "" {
		return nil, nil
	}
	var texts map[string]string
	if err := json.Unmarshal([]byte(s), &texts); err != nil {
		return nil, refusal.New("runtime options: must be a JSON object of texts: %v", err)
	}
	var t Table
	for _, k := range slices.Sorted(maps.Keys(texts)) {
		if err := t.put(strings.Split(k, "."), Typed(texts[k]), k); err != nil {
			return nil, err
		}
	}
	return t, nil
}
