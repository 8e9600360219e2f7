package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The plugin ids under which containerd keeps its CRI runtimes: up to config version 2, and since 3
// (containerd plugins/cri/runtime/plugin.go, configMigration).
const (
	pluginV2 = "io.containerd.grpc.v1.cri"
	pluginV3 = "io.containerd.cri.v1.runtime"
	pluginV1 = "cri"
)

const (
	newestVersion = 4 // the newest config version whose tables are known here (containerd version/version.go)
	createVersion = 3 // of a root file that we make: every containerd 2.x reads it
)

// builtin is the handler that containerd has without any file (containerd internal/cri/config, DefaultRuntimeConfig).
const builtin = "runc"

// domain says how a drop-in must be written to merge with a root file.
type domain struct {
	plugin string
	stamp  bool // the drop-in carries version = 2
}

// domain picks the plugin id where the runtimes really are, whatever the root's version says: a node image may have
// version 2 and the tables of version 3. Migration drops the old table wherever the new one exists.
func (c *Config) domain() (domain, error) {
	if c.root == nil {
		return domain{plugin: pluginV3}, nil
	}
	version := c.root.version
	switch {
	case version == 1 || version == 0 && c.root.plugin(pluginV1) != nil:
		return domain{}, c.root.errorf("version", "config version 1 is not supported; rewrite the file with `containerd config migrate`")
	case version < 0 || version > newestVersion:
		return domain{}, c.root.errorf("version", "config version %d is not known, the newest known one is %d; update quiesce", version, newestVersion)
	case version >= 3:
		return domain{plugin: pluginV3}, nil
	}
	d := domain{plugin: pluginV2, stamp: version == 0}
	for _, s := range c.sources {
		if !s.ours && len(s.runtimes(pluginV3)) > 0 {
			d.plugin = pluginV3
		}
	}
	return d, nil
}

// Supported refuses a containerd whose drop-ins do not merge. The version is what containerd prints: 2.4.2, v2.1.5-k3s1.
func Supported(version string) error {
	first, _, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".")
	major, err := strconv.Atoi(first)
	switch {
	case err != nil || !found || major < 0:
		return fmt.Errorf("read containerd's version: %q is not of the form MAJOR.MINOR.PATCH", version)
	case major < 2:
		return errors.New("containerd " + version + " keeps only the last file's table of a plugin, so a drop-in would take away the root's CRI settings; containerd before 2.0 is not supported yet")
	}
	return nil
}
