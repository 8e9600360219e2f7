package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// An inline table takes neither a [table] below it nor a comment. What is ours goes behind its brace, and our part of the
// file, all comments then, has each text that we put somewhere, so that exactly that is taken out again.
const (
	inlineHead = "# inline: "
	quoted     = "# |" // a line of a handler's table as it would be otherwise, which its digest is of
)

// inserted is text for the deepest inline table on the way to a path.
type inserted struct {
	path []string
	text string
}

// inlineTable is an inline table in a file: where it is from the top, and the offset behind its brace.
type inlineTable struct {
	keys []string
	at   int
}

// inlineTables are all in the value of a key.
func inlineTables(keys []string, value *unstable.Node) []inlineTable {
	if value.Kind != unstable.InlineTable {
		return nil
	}
	out := []inlineTable{{keys, span(value.Raw)[1]}}
	for it := value.Children(); it.Next(); {
		child := it.Node()
		if child.Kind != unstable.KeyValue {
			continue
		}
		below := slices.Clone(keys)
		for k := child.Key(); k.Next(); {
			below = append(below, string(k.Node().Data))
		}
		out = append(out, inlineTables(below, child.Value())...)
	}
	return out
}

// deepest is the deepest inline table on the way to a path, and how many keys lead there; 0: there is none.
func deepest(data []byte, path []string) (at, depth int) {
	walk(data, func(e expression) {
		for _, t := range e.inline {
			if n := len(t.keys); n > depth && n < len(path) && slices.Equal(t.keys, path[:n]) {
				at, depth = t.at, n
			}
		}
	})
	return at, depth
}

// putInline puts texts where they belong.
func putInline(data []byte, texts []inserted) []byte {
	for _, in := range texts {
		at, _ := deepest(data, in.path)
		text := in.text
		if !bytes.HasPrefix(bytes.TrimLeft(data[at:], " \t\r\n"), []byte("}")) {
			text += ", "
		}
		data = replace(data, at, at, text)
	}
	return data
}

// takeOut is a file without our part and what belongs to it, and where the part was, where keep is now.
func (r *region) takeOut(path string, data []byte, keep string) (rest []byte, at int, err error) {
	at = r.span[0]
	rest = replace(data, r.span[0], r.span[1], keep)
	for _, text := range slices.Backward(r.inline) {
		i := bytes.Index(rest, []byte(text))
		if i < 0 {
			return nil, 0, fmt.Errorf("%s: %q is not there any more as quiesce put it into an inline table; bring it back, or remove what is left of it and the part %q", path, text, regionBegin)
		}
		end := i + len(text)
		if bytes.HasPrefix(rest[end:], []byte(", ")) {
			end += len(", ")
		}
		rest = replace(rest, i, end, "")
		if i < at {
			at -= end - i
		}
	}
	return rest, at, nil
}

// inlined turns the tables of a region into what goes into the file's inline tables, when it has some on the way.
func (e edit) inlined(nri, text string, path []string, kept map[string]map[string]any, want []Handler) (string, []inserted, error) {
	var out []inserted
	above := []string{"plugins", pluginNRI, "disable"}
	if _, depth := deepest(e.s.bare, above); depth > 0 && nri != "" {
		nri, out = "", []inserted{{above, inlineKey(above[depth:]) + " = false"}}
	}
	path = append(slices.Clone(path), "")
	if _, depth := deepest(e.s.bare, path); depth > 0 {
		items, err := inlineHandlers(path, depth, kept, want)
		if err != nil {
			return "", nil, err
		}
		out = append(out, inserted{path, items})
		text = quotedText(text)
	}
	var head strings.Builder
	for _, in := range out {
		head.WriteString(inlineHead + in.text + "\n")
	}
	return head.String() + nri + text, out, nil
}

// inlineHandlers are runtimes by the keys of their path from a depth on.
func inlineHandlers(path []string, depth int, kept map[string]map[string]any, want []Handler) (string, error) {
	tables := maps.Clone(kept)
	for _, h := range want {
		table, options, err := h.table()
		if err != nil {
			return "", err
		}
		if table["runtime_type"] = h.Type; len(options) > 0 {
			table["options"] = options
		}
		tables[h.Name] = table
	}
	var items []string
	for _, name := range sortedKeys(tables) {
		value, err := inlineValue(tables[name])
		if err != nil {
			return "", err
		}
		items = append(items, inlineKey(append(slices.Clone(path[depth:len(path)-1]), name))+" = "+value)
	}
	return strings.Join(items, ", "), nil
}

// quotedText makes comments of what is none.
func quotedText(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if line != "" && !strings.HasPrefix(line, "# ") {
			lines[i] = quoted + line
		}
	}
	return strings.Join(lines, "")
}

func inlineKey(path []string) string {
	keys := make([]string, len(path))
	for i, key := range path {
		keys[i] = dotted(key)
	}
	return strings.Join(keys, ".")
}

// inlineValue writes a value on one line.
func inlineValue(value any) (string, error) {
	table, ok := value.(map[string]any)
	if !ok {
		line, err := toml.Marshal(map[string]any{"k": value})
		if err != nil {
			return "", fmt.Errorf("marshal %v: %w", value, err)
		}
		return strings.TrimSuffix(strings.TrimPrefix(string(line), "k = "), "\n"), nil
	}
	var items []string
	for _, key := range sortedKeys(table) {
		text, err := inlineValue(table[key])
		if err != nil {
			return "", err
		}
		items = append(items, dotted(key)+" = "+text)
	}
	return "{" + strings.Join(items, ", ") + "}", nil
}
