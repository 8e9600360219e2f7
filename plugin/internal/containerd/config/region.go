package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The lines around what is ours in a file of somebody else's. The second form of the first line says that the line end
// before it is ours too: the file had none at its end.
const (
	regionBegin = "# quiesce: begin, managed by quiesce, do not edit"
	regionGlued = regionBegin + " (nor the line end before)"
	regionEnd   = "# quiesce: end"
	builtinHead = "# built-in: " // a runtime that containerd has by itself and would lose by ours
)

var regionHead = regexp.MustCompile(`^# handler: (\S+), entry: (\S*), sha256: ([0-9a-f]{64})$`)

// region is what is ours in a file: one block of lines.
type region struct {
	span     [2]int // in the file, the line end before it included when that is ours
	first    string // the first line, with that line end
	handlers []Installed
	kept     bool     // the built-in runtime is there as well
	inline   []string // what is ours elsewhere in the file, inside of inline tables
}

// findRegion finds ours in a file; nil: there is nothing.
func findRegion(path string, data []byte) (*region, error) {
	var r *region
	var body []string
	for at, row := 0, 1; at < len(data); row++ {
		line := data[at:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end+1]
		}
		text := strings.TrimRight(string(line), "\r\n")
		open := r != nil && r.span[1] == 0
		switch {
		case text == regionBegin || text == regionGlued:
			if r != nil {
				return nil, fmt.Errorf("%s:%d: a second part of quiesce's begins here; remove one of them", path, row)
			}
			r = &region{span: [2]int{at, 0}, first: text}
		case open && text == regionEnd:
			r.span[1] = at + len(line)
			r.handlers = readBlocks(path, body)
		case open && strings.HasPrefix(text, inlineHead):
			r.inline = append(r.inline, text[len(inlineHead):])
		case open:
			r.kept = r.kept || strings.HasPrefix(text, builtinHead+builtin+",")
			body = append(body, strings.TrimPrefix(text, quoted))
		}
		at += len(line)
	}
	if r != nil && r.span[1] == 0 {
		return nil, fmt.Errorf("%s: the line %q is not there any more, so nobody knows where quiesce's part of the file ends; bring it back", path, regionEnd)
	}
	// When somebody has gone on writing below, their text needs the line end.
	if r != nil && r.first == regionGlued && r.span[1] == len(data) {
		r.first = "\n" + regionGlued
		r.span[0] = len(trimLineEnd(data[:r.span[0]]))
	}
	return r, nil
}

func trimLineEnd(data []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
}

// readBlocks reads the handlers of a region.
func readBlocks(path string, lines []string) []Installed {
	var out []Installed
	var body strings.Builder
	var digest string
	finish := func() {
		if digest != "" {
			in := &out[len(out)-1]
			sum := sha256.Sum256([]byte(body.String()))
			in.Intact = digest == hex.EncodeToString(sum[:]) && in.readBody([]byte(body.String()))
		}
		digest = ""
		body.Reset()
	}
	for _, line := range lines {
		m := regionHead.FindStringSubmatch(line)
		if m == nil && !strings.HasPrefix(line, builtinHead) {
			body.WriteString(line + "\n")
			continue
		}
		finish()
		if m != nil && nameForm.MatchString(m[1]) {
			out = append(out, Installed{Handler: Handler{Name: m[1], Entry: m[2]}, Path: path})
			digest = m[3]
		}
	}
	finish()
	return out
}

// renderRegion writes the handlers below the table at path; kept are the runtimes that containerd has built in and that
// go lost when a file names any.
func renderRegion(handlers []Handler, kept map[string]map[string]any, path []string) (string, error) {
	var out strings.Builder
	for _, name := range sortedKeys(kept) {
		var body bytes.Buffer
		if err := renderTable(&body, append(slices.Clip(path), name), kept[name]); err != nil {
			return "", err
		}
		out.WriteString(builtinHead + name + ", which containerd forgets when a file has any runtime\n" + body.String())
	}
	for _, h := range handlers {
		body, err := renderBody(h, path, "")
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(body)
		fmt.Fprintf(&out, "# handler: %s, entry: %s, sha256: %s\n%s", h.Name, h.Entry, hex.EncodeToString(sum[:]), body)
	}
	return out.String(), nil
}

// putRegion puts the text of a region into a file that has none, where it was, or else at the end.
func putRegion(data []byte, was *region, where int, text string) []byte {
	at, first := len(data), regionBegin
	switch {
	case was != nil:
		at, first = where, was.first
	case at > 0 && data[at-1] != '\n':
		first = "\n" + regionGlued
	}
	text = first + "\n" + text + regionEnd + "\n"
	if eol := lineEnd(data); eol != "\n" {
		text = strings.ReplaceAll(text, "\n", eol)
	}
	return replace(data, at, at, text)
}

// masked is a file without our part, as somebody else wrote it. Lines keep their number.
func masked(path string, data []byte, r *region) ([]byte, error) {
	if r == nil {
		return data, nil
	}
	lines := bytes.Count(data[r.span[0]:r.span[1]], []byte("\n"))
	rest, _, err := r.takeOut(path, data, strings.Repeat("\n", lines))
	return rest, err
}

// bom is the mark that containerd before 2.0 reads over, and later ones refuse.
const bom = "\xef\xbb\xbf"
