package config

import (
	"maps"
	"slices"
)

// runcType is the only runtime_type whose options containerd decodes as those of runc's shim (containerd
// internal/cri/config, GenerateRuntimeOptions): another OCI runtime behind that shim.
const runcType = "io.containerd.runc.v2"

// inherit gives handlers of runc's shim what the node's own runc handler has and the installer did not choose: the
// cgroup driver must be the kubelet's, and the snapshotter one that works on this disk. Other shims get nothing: they
// take no such option, or choose for themselves.
func (c *Config) inherit(want []Handler) []Handler {
	system, snapshotter := c.runc()
	out := slices.Clone(want)
	for i := range out {
		h := &out[i]
		if h.Type != runcType {
			continue
		}
		if _, chosen := h.Options["SystemdCgroup"]; !chosen && system {
			h.Options = with(h.Options, "SystemdCgroup", true)
		}
		if _, chosen := h.Settings["snapshotter"]; !chosen && snapshotter != "" {
			h.Settings = with(h.Settings, "snapshotter", snapshotter)
		}
	}
	return out
}

func with(m map[string]any, key string, value any) map[string]any {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]any{}
	}
	out[key] = value
	return out
}

// runc is what the files say of the node's runc handler; the last one counts.
func (c *Config) runc() (systemd bool, snapshotter string) {
	for _, s := range c.sources {
		for _, id := range criPlugins {
			table, _ := s.runtimes(id)[builtin].(map[string]any)
			options, _ := table["options"].(map[string]any)
			if v, ok := options["SystemdCgroup"].(bool); ok {
				systemd = v
			}
			if v, ok := table["snapshotter"].(string); ok {
				snapshotter = v
			}
		}
	}
	return systemd, snapshotter
}
