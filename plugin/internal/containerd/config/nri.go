package config

import (
	"bytes"
	"context"
	"fmt"
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

// nriText turns NRI on where it is off because no file says anything of it (containerd 1.7 pkg/nri/config.go). A file that
// has the table has the word: nothing is said against it.
func (c *Config) nriText() (string, error) {
	if !c.nri || !c.release.legacy() || c.release.before(release{1, 7}) {
		return "", nil
	}
	for _, s := range c.sources {
		if s.plugin(pluginNRI) != nil {
			return "", nil
		}
	}
	var body bytes.Buffer
	err := renderTable(&body, []string{"plugins", pluginNRI}, map[string]any{"disable": false})
	return builtinHead + "NRI, which is off before containerd 2.0 unless it is asked for\n" + body.String(), err
}
