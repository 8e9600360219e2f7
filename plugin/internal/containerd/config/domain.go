package config

import "slices"

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
	createLegacy  = 2 // the same for containerd before 2.0
)

// criPlugins are all of them.
var criPlugins = []string{pluginV3, pluginV2, pluginV1}

// builtin is the handler that containerd has without any file (containerd internal/cri/config, DefaultRuntimeConfig).
const builtin = "runc"

// builtinLegacy is its table in containerd before 2.0 (containerd 1.7 pkg/cri/config/config_unix.go, DefaultConfig),
// where one runtime in a file takes the built-in ones away.
func builtinLegacy() map[string]map[string]any {
	return map[string]map[string]any{builtin: {
		"runtime_type": "io.containerd.runc.v2", "sandbox_mode": "podsandbox",
		"options": map[string]any{
			"BinaryName": "", "CriuImagePath": "", "CriuPath": "", "CriuWorkPath": "", "IoGid": int64(0), "IoUid": int64(0),
			"NoNewKeyring": false, "NoPivotRoot": false, "Root": "", "ShimCgroup": "", "SystemdCgroup": false,
		},
	}}
}

// domain says how our tables must be written to merge with a root file.
type domain struct {
	plugin string
	stamp  bool // the drop-in carries version = 2
}

// version is the config version that containerd goes by; 0: none is named. Before 2.0 that is the last that any file
// names; before 2.3 a file without one, or with 1, is taken as if it had that of the files before it, at first 3; later
// it is the root's (LoadConfig of each in cmd/containerd/server/config/config.go).
func (c *Config) version() (version int, says *source) {
	if c.shape == nil {
		return 0, nil
	}
	version, says = c.shape.version, c.shape
	if !c.release.before(release{2, 3}) {
		return version, says
	}
	oldest := 1
	if !c.release.legacy() {
		if oldest = 2; version < oldest {
			version = 3
		}
	}
	for _, s := range c.sources {
		if !s.ours && s.version >= oldest {
			version, says = s.version, s
		}
	}
	return version, says
}

// domain picks the plugin id where the runtimes really are, whatever the root's version says: a node image may have
// version 2 and the tables of version 3. Migration drops the old table wherever the new one exists.
func (c *Config) domain() (domain, error) {
	version, says := c.version()
	switch newest := c.release.newest(); {
	case c.shape == nil && c.release.legacy():
		return domain{plugin: pluginV2}, nil
	case c.shape == nil:
		return domain{plugin: pluginV3}, nil
	case version < 0 || version > newestVersion:
		return domain{}, says.errorf("version", "config version %d is not known, the newest known one is %d; update quiesce", version, newestVersion)
	case version > newest:
		return domain{}, says.errorf("version", "config version %d is too new for this containerd, which reads versions up to %d; update containerd", version, newest)
	case version >= 3:
		return domain{plugin: pluginV3}, nil
	case c.first():
		return domain{plugin: pluginV1}, nil
	}
	d := domain{plugin: pluginV2, stamp: version == 0}
	if c.moved() || c.wakes() {
		d.plugin = pluginV3
	}
	return d, nil
}

// moved tells whether a file has a table of runtimes where version 3 has them, be it empty: the migration of older ones
// stops at it.
func (c *Config) moved() bool {
	return !c.release.legacy() && slices.ContainsFunc(c.sources, func(s *source) bool { return !s.ours && len(s.runtimeTables(pluginV3)) > 0 })
}

// mixed tells whether there are tables of CRI both where version 3 has them and where older ones do.
func (c *Config) mixed() bool {
	has := func(id string) bool {
		return slices.ContainsFunc(c.sources, func(s *source) bool { return !s.ours && s.plugin(id) != nil })
	}
	return has(pluginV3) && (has(pluginV2) || has(pluginV1))
}

// wakes tells whether a first table of runtimes under the old id would wake settings up that containerd reads over without
// one: since 2.3 in the same file, before that in any (migrateConfig in plugins/cri/images/plugin.go).
func (c *Config) wakes() bool {
	settings := false
	for _, s := range c.sources {
		if s.ours {
			continue
		}
		table, _ := s.plugin(pluginV2)["containerd"].(map[string]any)
		if _, has := table["runtimes"]; has {
			return false
		}
		for _, key := range []string{"snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers"} {
			_, has := table[key]
			settings = settings || has
		}
	}
	return settings && !c.release.legacy() && (c.release.before(release{2, 3}) || c.inPlace())
}

// first tells whether our tables are written as those of config version 1. Without a version key containerd before 2.0
// takes files so; a later one moves the tables of a drop-in that is written as one of version 2 to the same place, and
// only what is made from a template has ours beside theirs.
func (c *Config) first() bool {
	version, _ := c.version()
	switch {
	case c.shape == nil || version > 1:
		return false
	case c.release.legacy():
		return version == 1 || version == 0
	}
	return c.template != nil && !c.moved() && c.shape.plugin(pluginV2) == nil && c.shape.plugin(pluginV1) != nil
}
