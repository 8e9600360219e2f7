package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// writeBundle writes the OCI bundle whose process is systemd.
func (n *Node) writeBundle() error {
	caps, err := capabilities()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(bundleSpec(n.ID, n.dir, caps), "", "  ")
	if err != nil {
		return fmt.Errorf("encode bundle: %w", err)
	}
	if err := os.WriteFile(filepath.Join(n.dir, "config.json"), data, 0o644); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// bundleSpec has no rlimits: raising them needs CAP_SYS_RESOURCE, which a machine may lack.
func bundleSpec(id, dir string, caps capSet) *specs.Spec {
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: id,
		Root:     &specs.Root{Path: filepath.Join(dir, "rootfs")},
		Process: &specs.Process{
			// runc leaves a root that is a mount of its own private, and systemd in a container leaves it to its manager.
			Args:         []string{"/bin/sh", "-c", "mount --make-rshared / && exec /sbin/init"},
			Cwd:          "/",
			Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "container=oci"},
			Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Mounts: bundleMounts(),
		Linux: &specs.Linux{
			CgroupsPath:       "/" + id,
			RootfsPropagation: "shared",
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.CgroupNamespace},
			},
			Resources: &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}},
		},
	}
}

// bundleMounts mounts cgroups writable; runc makes that the one hierarchy on a machine with version 2 alone.
func bundleMounts() []specs.Mount {
	const tmpfs = "tmpfs"
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: tmpfs, Source: tmpfs, Options: []string{"nosuid", "strictatime", "mode=755", "size=64m"}},
		{
			Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"},
		},
		{Destination: "/dev/shm", Type: tmpfs, Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "rw"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "rw"}},
		{Destination: "/run", Type: tmpfs, Source: tmpfs, Options: []string{"nosuid", "nodev", "mode=755"}},
		{Destination: "/tmp", Type: tmpfs, Source: tmpfs, Options: []string{"nosuid", "nodev", "mode=1777"}},
	}
}
