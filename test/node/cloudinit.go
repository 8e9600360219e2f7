package node

import (
	"context"
	"os/exec"
)

// unpack fetches Debian's cloud-init with what it needs, and unpacks it without running any script of a package.
const unpack = `debootstrap --foreign --variant=minbase --include=cloud-init ` + debianSuite + ` "$1" &&
for deb in "$1"/var/cache/apt/archives/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$1" || exit 1; done &&
rm -r "$1"/var/cache/apt/archives`

// CloudInit returns a root file system with cloud-init, which is not for this machine: it would take it over.
func (k *Kit) CloudInit(ctx context.Context) (string, error) {
	return k.cache.artefact(ctx, "rootfs/"+debianSuite+"-cloud-init", []string{"usr/bin/cloud-init"}, func(ctx context.Context, dir string) error {
		return run(exec.CommandContext(ctx, "sh", "-c", unpack, "sh", dir))
	})
}
