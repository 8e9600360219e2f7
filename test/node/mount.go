package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPoint is a line of /proc/self/mountinfo.
type mountPoint struct {
	root, path, fstype, super string
}

// mountPoints lists the mounts of this process in the order in which they were made.
func mountPoints() ([]mountPoint, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var all []mountPoint
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		left, right, _ := strings.Cut(lines.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 5 || len(r) < 3 {
			continue
		}
		all = append(all, mountPoint{root: unescape(l[3]), path: unescape(l[4]), fstype: r[0], super: r[2]})
	}
	return all, lines.Err()
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// mountOverlay mounts lowers (topmost first) and the upper and work directories at target.
// The mount is private: what is mounted inside a node never appears outside.
func mountOverlay(target, upper, work string, lowers ...string) error {
	opts := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(lowers, ":"), upper, work)
	if err := unix.Mount("overlay", target, "overlay", 0, opts); err != nil {
		return fmt.Errorf("mount overlay (the cache must be on a file system such as ext4 or xfs, see QUIESCE_CACHE): %w", err)
	}
	return makePrivate(target)
}

// mountBind mounts the directory source at target, privately.
func mountBind(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("create mount point: %w", err)
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", filepath.Base(source), err)
	}
	return makePrivate(target)
}

func makePrivate(target string) error {
	if err := unix.Mount("", target, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mount private: %w", err)
	}
	return nil
}

// unmountBelow unmounts dir and everything below it, last mount first.
func unmountBelow(dir string) error {
	all, err := mountPoints()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range slices.Backward(all) {
		if m.path != dir && !strings.HasPrefix(m.path, dir+"/") {
			continue
		}
		if err := unix.Unmount(m.path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.path, err))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes dir; whatever is mounted in it is unmounted first, never emptied.
func removeTree(dir string) error {
	if err := unmountBelow(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	return nil
}
