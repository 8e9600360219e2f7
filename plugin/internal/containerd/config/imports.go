package config

import (
	"bytes"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

const marker = " # added by quiesce"

// layout is where things are in the top level of a root file.
type layout struct {
	version [2]int  // span of the version's key and value; empty: there is none
	imports [2]int  // the same of imports
	bracket int     // offset of the [ of imports
	values  []value // its elements
}

type value struct {
	span [2]int
	text string // decoded
}

// scan finds the spans with go-toml's own parser; it stops at the first table header, where the top level ends.
func scan(data []byte) layout {
	var l layout
	p := unstable.Parser{}
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue {
			break
		}
		it := e.Key()
		it.Next()
		key, last := it.Node(), it.IsLast()
		switch {
		case !last:
		case strings.ToLower(string(key.Data)) == "version":
			l.version = span(e.Raw)
		case strings.ToLower(string(key.Data)) == "imports":
			l.imports = span(e.Raw)
			// Between the key and its array there is only white space and the equals sign.
			from := span(key.Raw)[1]
			l.bracket = from + bytes.IndexByte(data[from:], '[')
			for el := e.Value().Children(); el.Next(); {
				l.values = append(l.values, value{span(el.Node().Raw), string(el.Node().Data)})
			}
		}
	}
	return l
}

func span(r unstable.Range) [2]int { return [2]int{int(r.Offset), int(r.Offset + r.Length)} }

// replace gives data with the bytes of a span exchanged; data itself stays as it is. An empty file is not nil.
func replace(data []byte, from, to int, text string) []byte {
	out := append(make([]byte, 0, len(data)+len(text)), data[:from]...)
	return append(append(out, text...), data[to:]...)
}

// splice adds one import: an element right behind the [ of the array that is there, or a line of its own, after the
// version's or first of all. Nothing else moves.
func splice(data []byte, pattern string) ([]byte, error) {
	_, text, err := quote("k", pattern)
	if err != nil {
		return nil, err
	}
	l := scan(data)
	if l.imports[1] > 0 {
		if len(l.values) > 0 {
			text += ", "
		}
		return replace(data, l.bracket+1, l.bracket+1, text), nil
	}
	at := 0
	if l.version[1] > 0 {
		if end := bytes.IndexByte(data[l.version[1]:], '\n'); end >= 0 {
			at = l.version[1] + end + 1
		} else { // no line end to put it behind: before the version, so that the file still ends as it did
			at = bytes.LastIndexByte(data[:l.version[0]], '\n') + 1
		}
	}
	return replace(data, at, at, "imports = ["+text+"]"+marker+lineEnd(data)), nil
}

// lineEnd is the file's own line ending, that of its first line.
func lineEnd(data []byte) string {
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// unsplice takes our import out: exactly what splice put in, or, when somebody has rewritten the array since, the
// element with the comma behind it.
func unsplice(data []byte, pattern string) ([]byte, error) {
	_, text, err := quote("k", pattern)
	if err != nil {
		return nil, err
	}
	l := scan(data)
	if from, to, ok := ownLine(data, l, text); ok {
		return replace(data, from, to, ""), nil
	}
	i := slices.IndexFunc(l.values, func(v value) bool { return v.text == pattern })
	if i < 0 {
		return data, nil
	}
	from, to := l.values[i].span[0], l.values[i].span[1]
	rest := data[to:]
	if from != l.bracket+1 {
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	if tail, ok := bytes.CutPrefix(rest, []byte(",")); ok {
		if from == l.bracket+1 {
			tail = bytes.TrimPrefix(tail, []byte(" "))
		}
		to = len(data) - len(tail)
	}
	return replace(data, from, to, ""), nil
}

// ownLine is the span of the line that splice inserted, if it is still as it was.
func ownLine(data []byte, l layout, text string) (from, to int, ok bool) {
	from, to = l.imports[0], l.imports[1]
	if string(data[from:to]) != "imports = ["+text+"]" || from > 0 && data[from-1] != '\n' {
		return 0, 0, false
	}
	line, _, found := bytes.Cut(data[to:], []byte("\n"))
	if string(bytes.TrimSuffix(line, []byte("\r"))) != marker {
		return 0, 0, false
	}
	to += len(line)
	if found {
		to++
	}
	return from, to, true
}

func dropFold(m map[string]any, name string) {
	for key := range m {
		if strings.ToLower(key) == name {
			delete(m, key)
		}
	}
}
