package config

import (
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
	plugins, _ := tree["plugins"].(map[string]any)
	t, _ := plugins["io.containerd.nri.v1.nri"].(map[string]any)
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
