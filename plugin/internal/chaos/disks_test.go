package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"quiesce/plugin/stage"
)

// disks are file systems in memory: of the stage, of the runtime's configuration and of the shims.
type disks struct{ dir string }

const (
	mountRoot  = "/dev/shm"
	mountStem  = "quiesce-chaos-"
	diskSize   = "size=1m"
	original   = "# mine\nversion = 3\n\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\n  default_runtime_name = 'runc'\n"
	configFile = "etc/config.toml"
)

var parts = []string{"var", "etc", "opt"}

func newDisks(t *testing.T) *disks {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("only root can mount the file systems that these histories fill up; run it with sudo")
	}
	sweepDisks()
	dir, err := os.MkdirTemp(mountRoot, fmt.Sprintf("%s%d-", mountStem, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	d := &disks{dir: dir}
	t.Cleanup(func() {
		if err := errors.Join(d.unmount(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return d
}

// sweepDisks removes those of test processes that were killed.
func sweepDisks() {
	dirs, _ := filepath.Glob(filepath.Join(mountRoot, mountStem+"*"))
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), mountStem), "-")
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		if _, err := os.Stat("/proc/" + pid); err == nil {
			continue
		}
		if (&disks{dir: dir}).unmount() == nil {
			_ = os.RemoveAll(dir)
		}
	}
}

func (d *disks) unmount() (errs error) {
	for _, p := range parts {
		if err := syscall.Unmount(filepath.Join(d.dir, p), syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// fresh mounts new ones, as a node has them before quiesce is used.
func (d *disks) fresh() error {
	if err := d.unmount(); err != nil {
		return err
	}
	for _, p := range parts {
		at := filepath.Join(d.dir, p)
		if err := errors.Join(os.MkdirAll(at, 0o755), syscall.Mount("none", at, "tmpfs", 0, diskSize)); err != nil {
			return fmt.Errorf("mount %s: %w", at, err)
		}
	}
	return errors.Join(stage.Create(filepath.Join(d.dir, "var/stage")), os.MkdirAll(filepath.Join(d.dir, "opt/shims"), 0o755),
		os.WriteFile(filepath.Join(d.dir, configFile), []byte(original), 0o644))
}

// fill leaves no byte.
func (d *disks) fill(part string) {
	f, err := os.OpenFile(filepath.Join(d.dir, part, "ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}

// readOnly does nothing while a file is being written: the kernel refuses it then.
func (d *disks) readOnly(part string) {
	_ = syscall.Mount("none", filepath.Join(d.dir, part), "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

func (d *disks) heal() (errs error) {
	for _, p := range parts {
		at := filepath.Join(d.dir, p)
		errs = errors.Join(errs, syscall.Mount("none", at, "", syscall.MS_REMOUNT, diskSize))
		if err := os.Remove(filepath.Join(at, "ballast")); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}
