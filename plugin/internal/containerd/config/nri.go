package config

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// NRI is what a configuration sets for it; nil, 0 and empty: nothing.
type NRI struct {
	Disabled              *bool
	Request, Registration time.Duration // timeouts of plugins
	Socket                string
}

// ReadNRI reads the table of NRI, imports included, as containerd's loader does. A file that is not there sets nothing.
func ReadNRI(ctx context.Context, path string) (NRI, error) {
	tree, err := loadTree(ctx, path)
	if err != nil {
		return NRI{}, err
	}
	t := treeSource(tree).plugin(pluginNRI)
	var n NRI
	if off, ok := t["disable"].(bool); ok {
		n.Disabled = &off
	}
	n.Socket, _ = t["socket_path"].(string)
	for key, to := range map[string]*time.Duration{"plugin_request_timeout": &n.Request, "plugin_registration_timeout": &n.Registration} {
		text, ok := t[key].(string)
		if !ok {
			continue
		}
		if *to, err = time.ParseDuration(text); err != nil {
			return n, fmt.Errorf("read %s: %s: %w", path, key, err)
		}
	}
	return n, nil
}

const pluginNRI = "io.containerd.nri.v1.nri"

// turnsNRI tells whether NRI is ours to turn on: before 2.0, where it is off by default and dumped configs say so.
func (c *Config) turnsNRI() bool {
	return c.nri && c.release.legacy() && !c.release.before(release{1, 7})
}

// nriSource is the file whose table of NRI counts, the last one; nil: no file has any.
func (c *Config) nriSource() (last *source) {
	for _, s := range c.sources {
		if s.plugin(pluginNRI) != nil {
			last = s
		}
	}
	return last
}

// nriText turns NRI on where it is off because no file says anything of it (containerd 1.7 pkg/nri/config.go).
func (c *Config) nriText() (string, error) {
	if !c.turnsNRI() || c.nriSource() != nil {
		return "", nil
	}
	var body bytes.Buffer
	err := renderTable(&body, []string{"plugins", pluginNRI}, map[string]any{"disable": false})
	return builtinHead + "NRI, which is off before containerd 2.0 unless it is asked for\n" + body.String(), err
}

// What a line of somebody else's table of NRI ends with while quiesce keeps NRI on. What was turned on stays on when a
// containerd comes that would have it on by itself.
const (
	nriTurned = "false # quiesce: was true"
	nriLine   = "disable = false" + marker
)

// nri turns NRI on in the table of somebody else's that counts, and gives every other one back.
func (e edit) nri(data []byte) []byte {
	data = restoreNRI(data)
	if on := e.c.turnsNRI() || e.c.nri && e.s.turned; !on || len(e.want) == 0 || e.c.nriSource() != e.s {
		return data
	}
	return turnNRI(data)
}

// turnNRI is data with `disable` false in the table of NRI. One that is written as an inline table stays as it is.
func turnNRI(data []byte) []byte {
	out, head := data, -1
	said := false
	walk(data, func(e expression) {
		switch {
		case !ofNRI(e.keys):
		case e.header && len(e.keys) == 2:
			head = e.span[1]
		case !e.header && len(e.keys) == 3 && e.keys[2] == "disable":
			if said = true; string(data[e.value[0]:e.value[1]]) == "true" {
				out = replace(data, e.value[0], e.value[1], nriTurned)
			}
		}
	})
	if said || head < 0 {
		return out
	}
	eol := lineEnd(data)
	end := bytes.IndexByte(data[head:], '\n')
	if end < 0 {
		return append(slices.Clone(data), eol+nriLine...)
	}
	return replace(data, head+end+1, head+end+1, nriLine+eol)
}

// restoreNRI takes out what turnNRI did.
func restoreNRI(data []byte) []byte {
	out := data
	if !bytes.Contains(data, []byte(nriTurned)) && !bytes.Contains(data, []byte(nriLine)) {
		return data
	}
	walk(data, func(e expression) {
		if e.header || !ofNRI(e.keys) || e.value[0] == e.value[1] {
			return
		}
		line := bytes.LastIndexByte(data[:e.value[0]], '\n') + 1
		text, _, ended := bytes.Cut(data[line:], []byte("\n"))
		switch {
		case bytes.HasPrefix(data[e.value[0]:], []byte(nriTurned)):
			out = replace(data, e.value[0], e.value[0]+len(nriTurned), "true")
		case string(bytes.TrimSuffix(text, []byte("\r"))) != nriLine:
		case ended:
			out = replace(data, line, line+len(text)+1, "")
		default: // the line end before it is ours as well
			out = trimLineEnd(data[:line])
		}
	})
	return out
}

func ofNRI(keys []string) bool {
	return len(keys) >= 2 && strings.EqualFold(keys[0], "plugins") && keys[1] == pluginNRI
}
