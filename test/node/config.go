package node

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"os"
	"text/template"
)

// base holds the files that every node has beside its Debian packages, and the templates.
//
//go:embed base containerd-v2.toml.tmpl containerd-v3.toml.tmpl
var base embed.FS

// Config says what differs between nodes. The zero value is a usual node.
type Config struct {
	// Name becomes part of the node's id and host name; lower-case letters, digits and dashes.
	Name string
	// Kit is what Prepare returned; nil makes Boot call it.
	Kit *Kit
	// Containerd is a version, DefaultContainerd if empty.
	Containerd string
	// SystemdCgroup makes runc use systemd's cgroup driver.
	SystemdCgroup bool
	// ContainerdTop and ContainerdTables are added to /etc/containerd/config.toml: keys of the top level, such as
	// imports, and tables. ContainerdConfig replaces the whole file.
	ContainerdTop, ContainerdTables, ContainerdConfig string
	// NoConfig leaves /etc/containerd/config.toml out: the unit reads another one.
	NoConfig bool
	// Unit is the unit that runs containerd, if it is not containerd.service, and Socket what it listens on, if that is not
	// /run/containerd/containerd.sock. Files has the unit.
	Unit, Socket string
	// Programs are built from the module under test: main package, such as ./plugin → path in the node.
	Programs map[string]string
	// Tools are programs of this machine, linked into the node: path in the node → file.
	Tools map[string]string
	// Build are arguments of go build for Programs.
	Build []string
	// Disks are directories that get file systems of their own, which PowerCut ends without writing what was not synced.
	Disks []string
	// Files are put into the node before its first boot, replacing what is there: path in the node → file.
	Files map[string]File
	// Enable names units that are enabled before the first boot.
	Enable []string
	// Image is given the root file system before anything of it has run, as one who builds images is.
	Image func(root string) error
	// Images are made and imported in addition to BusyboxImage and PauseImage.
	Images []Image
	// AllowFailed names units that may fail while booting.
	AllowFailed []string
}

// File is the content of a file in a node.
type File struct {
	Content string
	Host    string      // a file on this machine with the content, instead of Content
	Mode    os.FileMode // 0644 if zero
}

func (c Config) unit() string   { return cmp.Or(c.Unit, defaultUnit) }
func (c Config) socket() string { return cmp.Or(c.Socket, defaultSocket) }

const (
	defaultUnit   = "containerd.service"
	defaultSocket = "/run/containerd/containerd.sock"
)

// version is the containerd version of the node.
func (c Config) version() string {
	if c.Containerd == "" {
		return DefaultContainerd
	}
	return c.Containerd
}

// containerdConfig renders /etc/containerd/config.toml.
func (c Config) containerdConfig() (string, error) {
	if c.ContainerdConfig != "" {
		return c.ContainerdConfig, nil
	}
	caps, err := capabilities()
	if err != nil {
		return "", err
	}
	release, err := containerdTool(c.version())
	if err != nil {
		return "", err
	}
	t, err := template.ParseFS(base, release.config)
	if err != nil {
		return "", fmt.Errorf("parse template: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{
		"Top": c.ContainerdTop, "Tables": c.ContainerdTables, "Pause": PauseImage,
		"SystemdCgroup": c.SystemdCgroup, "RestrictOOM": !caps.has("CAP_SYS_RESOURCE"),
	})
	if err != nil {
		return "", fmt.Errorf("render containerd's config: %w", err)
	}
	return out.String(), nil
}

// maskedUnits need hardware, the network or the machine's own kernel settings, or only take time.
func maskedUnits() []string {
	return []string{
		"apt-daily.timer", "apt-daily-upgrade.timer", "console-getty.service", "dev-hugepages.mount", "dev-mqueue.mount",
		"dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "getty.target",
		"kmod-static-nodes.service", "proc-sys-fs-binfmt_misc.automount", "proc-sys-fs-binfmt_misc.mount",
		"sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
		"systemd-binfmt.service", "systemd-firstboot.service", "systemd-modules-load.service", "systemd-networkd.service",
		"systemd-networkd.socket", "systemd-random-seed.service", "systemd-remount-fs.service", "systemd-resolved.service",
		"systemd-sysctl.service", "systemd-timesyncd.service", "systemd-tmpfiles-clean.timer", "systemd-udev-trigger.service",
		"systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
	}
}
