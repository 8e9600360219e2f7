package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Disks of a node: each is an ext4 file system of its own, in an image on a loop device. Nothing reaches it but by a
// sync: the timed commit is far away, and a rename allocates nothing by itself.
const (
	diskSize    = 96 << 20
	diskOptions = "loop,commit=300,noauto_da_alloc"
)

// EXT4_IOC_SHUTDOWN and its argument that leaves the log unwritten (linux fs/ext4/ext4.h).
const (
	ext4Shutdown = 2<<30 | 4<<16 | 'X'<<8 | 125 // _IOR('X', 125, __u32)
	noLogFlush   = 2
)

// makeDisks makes and mounts the disks of the configuration.
func (n *Node) makeDisks(ctx context.Context) error {
	if len(n.cfg.Disks) == 0 {
		return nil
	}
	if err := os.MkdirAll(diskImages(n.ID, n.dir), 0o700); err != nil {
		return fmt.Errorf("make disks: %w", err)
	}
	for i, at := range n.cfg.Disks {
		image := n.diskImage(i)
		f, err := os.Create(image)
		if err == nil {
			err = errors.Join(f.Truncate(diskSize), f.Close())
		}
		if err != nil {
			return fmt.Errorf("make disk %s: %w", at, err)
		}
		mkfs := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", image)
		if err := run(mkfs); err != nil {
			return fmt.Errorf("make disk %s: %w", at, err)
		}
		if err := n.mountDisk(ctx, i); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(n.diskDir(i), "lost+found")); err != nil {
			return fmt.Errorf("make disk %s: %w", at, err)
		}
	}
	return nil
}

// diskImages is where the images are: in memory, where there is room, since everything on them is synced all the time.
func diskImages(id, dir string) string {
	const memory = "/dev/shm"
	if fi, err := os.Stat(memory); err == nil && fi.IsDir() {
		return filepath.Join(memory, id)
	}
	return filepath.Join(dir, "disks")
}

func (n *Node) diskImage(i int) string {
	return filepath.Join(diskImages(n.ID, n.dir), strconv.Itoa(i))
}

// diskDir is where a disk is mounted, outside the node.
func (n *Node) diskDir(i int) string { return filepath.Join(n.dir, "rootfs", n.cfg.Disks[i]) }

func (n *Node) mountDisk(ctx context.Context, i int) error {
	dir := n.diskDir(i)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	if err := run(exec.CommandContext(ctx, "mount", "-o", diskOptions, n.diskImage(i), dir)); err != nil {
		return fmt.Errorf("mount disk %s: %w", n.cfg.Disks[i], err)
	}
	return makePrivate(dir)
}

// cutDisks ends the file systems of the disks as a loss of power does: what was not synced is gone. Of those in written
// the kernel had happened to write everything.
func (n *Node) cutDisks(ctx context.Context, written []string) error {
	if len(n.cfg.Disks) == 0 {
		return nil
	}
	if err := n.suspend(ctx); err != nil {
		return err
	}
	for i, at := range n.cfg.Disks {
		d, err := os.Open(n.diskDir(i))
		if err != nil {
			return fmt.Errorf("cut disk %s: %w", at, err)
		}
		if slices.Contains(written, at) {
			err = unix.Syncfs(int(d.Fd()))
		}
		if err == nil {
			err = unix.IoctlSetPointerInt(int(d.Fd()), ext4Shutdown, noLogFlush)
		}
		if err = errors.Join(err, d.Close()); err != nil {
			return fmt.Errorf("cut disk %s: %w", at, err)
		}
	}
	return nil
}

// suspend lets no process of the node go on.
func (n *Node) suspend(ctx context.Context) error {
	dirs, err := cgroupDirs(n.ID)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if filepath.Base(dir) != n.ID {
			continue
		}
		_ = writeExisting(filepath.Join(dir, "freezer.state"), "FROZEN")
		_ = writeExisting(filepath.Join(dir, "cgroup.freeze"), "1")
	}
	err = poll(ctx, time.Millisecond, func() (bool, error) {
		for _, dir := range dirs {
			if filepath.Base(dir) != n.ID {
				continue
			}
			if state, err := os.ReadFile(filepath.Join(dir, "freezer.state")); err == nil && strings.TrimSpace(string(state)) == "FROZEN" {
				return true, nil
			}
			if events, err := os.ReadFile(filepath.Join(dir, "cgroup.events")); err == nil && strings.Contains(string(events), "frozen 1") {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("suspend %s: %w", n.ID, err)
	}
	return nil
}

// revive mounts the disks that were cut, as the next boot does: ext4 replays its journal.
func (n *Node) revive(ctx context.Context) error {
	for i, at := range n.cfg.Disks {
		err := poll(ctx, 20*time.Millisecond, func() (bool, error) {
			if err := unix.Unmount(n.diskDir(i), unix.MNT_DETACH); err != nil {
				return false, fmt.Errorf("unmount disk %s: %w", at, err)
			}
			if err := n.mountDisk(ctx, i); err != nil {
				return false, err
			}
			// While another mount namespace still has it, it is mounted as it was: dead.
			probe := filepath.Join(n.diskDir(i), ".alive")
			return os.WriteFile(probe, nil, 0o600) == nil && os.Remove(probe) == nil, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
