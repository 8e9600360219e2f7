package config

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A handler of somebody else's that is adopted stays in its file as comments: each of its lines behind this mark. So
// they come back byte for byte, where they were.
const (
	theirsBegin = "# quiesce: not ours, "
	theirsEnd   = ": "
)

var theirsForm = regexp.MustCompile(`^` + theirsBegin + `([a-z0-9][-a-z0-9]*)` + theirsEnd)

// giveBack takes the marks off the lines of every handler that is not kept. Names are those that had some.
func giveBack(data []byte, kept func(name string) bool) (_ []byte, names []string) {
	if !bytes.Contains(data, []byte(theirsBegin)) {
		return data, nil
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, line := range lines {
		m := theirsForm.FindSubmatch(line)
		if m == nil || kept(string(m[1])) {
			continue
		}
		lines[i] = line[len(m[0]):]
		if name := string(m[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return bytes.Join(lines, nil), names
}

// takeOver puts the lines of others that define a runtime behind marks. What is defined inside of an inline table stays, and the
// caller finds it still there.
func takeOver(data []byte, name string) []byte {
	spans := definitions(data, name)
	if r, err := findRegion("", data); err == nil && r != nil {
		spans = slices.DeleteFunc(spans, func(s [2]int) bool { return s[0] >= r.span[0] && s[1] <= r.span[1] })
	}
	var out bytes.Buffer
	at := 0
	for _, line := range bytes.SplitAfter(data, []byte("\n")) {
		end := at + len(line)
		if slices.ContainsFunc(spans, func(s [2]int) bool { return s[0] < end && at < s[1] }) {
			out.WriteString(theirsBegin + name + theirsEnd)
		}
		out.Write(line)
		at = end
	}
	return out.Bytes()
}

// definitions are the spans of all expressions that say something of a runtime.
func definitions(data []byte, name string) (spans [][2]int) {
	walk(data, func(e expression) {
		if definesRuntime(e.keys, name) {
			spans = append(spans, e.span)
		}
	})
	return spans
}

// expression is a header or a key with its value, as it stands in a file.
type expression struct {
	keys   []string // from the top
	span   [2]int
	header bool
	value  [2]int // of a key: the span of a true or false
	inline []inlineTable
}

// walk visits what a file says, in its order.
func walk(data []byte, visit func(expression)) {
	offset := 0
	if bytes.HasPrefix(data, []byte(bom)) {
		offset = len(bom)
	}
	var p unstable.Parser
	p.Reset(data[offset:])
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		x := expression{header: e.Kind != unstable.KeyValue}
		for it := e.Key(); it.Next(); {
			x.keys = append(x.keys, string(it.Node().Data))
			if len(x.keys) == 1 {
				x.span[0] = int(it.Node().Raw.Offset)
			}
			x.span[1] = span(it.Node().Raw)[1]
		}
		if x.header {
			table = x.keys
		} else {
			x.keys = slices.Concat(table, x.keys)
			x.span = span(e.Raw)
			if e.Value().Kind == unstable.Bool {
				x.value = span(p.Range(e.Value().Data))
			}
			x.inline = inlineTables(x.keys, e.Value())
		}
		for _, s := range []*[2]int{&x.span, &x.value} {
			s[0], s[1] = s[0]+offset, s[1]+offset
		}
		for i := range x.inline {
			x.inline[i].at += offset
		}
		visit(x)
	}
}

// definesRuntime tells whether a dotted key is a runtime's or below it.
func definesRuntime(keys []string, name string) bool {
	return len(keys) >= 5 && strings.EqualFold(keys[0], "plugins") && slices.Contains(criPlugins, keys[1]) &&
		strings.EqualFold(keys[2], "containerd") && strings.EqualFold(keys[3], "runtimes") && keys[4] == name
}
