package stage

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// xattr is an extended attribute of a file: a label, an ACL, a note of somebody's.
type xattr struct {
	name  string
	value []byte
}

// ofContents are extended attributes that the kernel makes of a file's contents (security/integrity): a copy would be wrong.
var ofContents = []string{"security.ima", "security.evm"}

// keeps tells whether a file that is written anew keeps an attribute of the old one.
func keeps(name string) bool {
	return (strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "system.posix_acl_")) &&
		!slices.Contains(ofContents, name)
}

// xattrs are the extended attributes of an existing regular file that the next one keeps, or none.
func (t *Tree) xattrs(name string) ([]xattr, error) {
	fi, err := t.root.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return nil, ignoreNotExist(err)
	}
	f, err := t.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read extended attributes: %w", cause(err))
	}
	defer f.Close()
	list, err := grown(func(buf []byte) (int, error) { return unix.Flistxattr(int(f.Fd()), buf) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list extended attributes: %w", err)
	}
	var out []xattr
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if !keeps(name) {
			continue
		}
		value, err := grown(func(buf []byte) (int, error) { return unix.Fgetxattr(int(f.Fd()), name, buf) })
		if err != nil {
			return nil, fmt.Errorf("read extended attribute %s: %w", name, err)
		}
		out = append(out, xattr{name, value})
	}
	return out, nil
}

// grown reads with a buffer of the size that the kernel asks for.
func grown(read func(buf []byte) (int, error)) ([]byte, error) {
	n, err := read(nil)
	if err != nil || n == 0 {
		return nil, err
	}
	buf := make([]byte, n)
	n, err = read(buf)
	return buf[:max(0, n)], err
}

// set gives a new file the attribute.
func (x xattr) set(f *os.File) error {
	if err := unix.Fsetxattr(int(f.Fd()), x.name, x.value, 0); err != nil {
		return fmt.Errorf("keep extended attribute %s: %w", x.name, err)
	}
	return nil
}
