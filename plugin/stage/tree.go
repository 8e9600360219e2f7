package stage

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Tree is a directory of the host and everything below it: the only way quiesce writes host files.
// No name leads out of it. A file is at every moment, and after a power cut, wholly old or wholly new.
type Tree struct {
	root *os.Root
	path string
	step func(name string) // see Steps
}

// OpenTree opens the existing directory dir.
func OpenTree(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory: %w", err)
	}
	return &Tree{root: root, path: dir}, nil
}

// Steps has f called before each change of the file system, and each sync, with what it is: tests end the process there.
func (t *Tree) Steps(f func(name string)) { t.step = f }

func (t *Tree) before(what, name string) {
	if t.step != nil {
		t.step(what + " " + t.Path(name))
	}
}

// Close releases the directory.
func (t *Tree) Close() error { return t.root.Close() }

// Path is the name of a file of the tree as the host sees it.
func (t *Tree) Path(name string) string { return path.Join(t.path, name) }

// Attr is what a written file gets.
type Attr struct {
	Mode     fs.FileMode
	UID, GID int
}

// Write replaces name by what r gives. The old file's extended attributes are kept: labels, ACLs, what others noted; one
// that cannot be is an error, and the old file stays.
func (t *Tree) Write(name string, r io.Reader, attr Attr) error {
	tmp, err := t.prepare(name, r, attr)
	if err != nil {
		return err
	}
	if err := t.Rename(tmp, name); err != nil {
		return errors.Join(err, ignoreNotExist(t.root.Remove(tmp)))
	}
	return nil
}

// prepare writes what is to become name beside it: what is left to do needs no space.
func (t *Tree) prepare(name string, r io.Reader, attr Attr) (_ string, err error) {
	kept, err := t.xattrs(name)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", t.Path(name), err)
	}
	tmp := path.Join(path.Dir(name), tempPrefix+rand.Text())
	t.before("create", name)
	f, err := t.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", t.Path(name), cause(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreNotExist(t.root.Remove(tmp)))
		}
	}()
	t.before("fill", name)
	err = fill(f, r, attr, kept)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", fmt.Errorf("write %s: %w", t.Path(name), cause(err))
	}
	return tmp, nil
}

// WriteBytes is Write for small contents.
func (t *Tree) WriteBytes(name string, b []byte, attr Attr) error {
	return t.Write(name, bytes.NewReader(b), attr)
}

func fill(f *os.File, r io.Reader, attr Attr, kept []xattr) error {
	if err := pour(f, r); err != nil {
		return err
	}
	if err := f.Chown(attr.UID, attr.GID); err != nil {
		return err
	}
	if err := f.Chmod(attr.Mode); err != nil {
		return err
	}
	for _, x := range kept { // an ACL after the mode, whose group bits are its mask
		if err := x.set(f); err != nil {
			return err
		}
	}
	return f.Sync()
}

// Rename moves a file or directory and syncs both parents.
func (t *Tree) Rename(from, to string) error {
	t.before("rename", to)
	if err := t.root.Rename(from, to); err != nil {
		return fmt.Errorf("rename to %s: %w", t.Path(to), err)
	}
	if path.Dir(from) != path.Dir(to) {
		if err := t.Sync(path.Dir(from)); err != nil {
			return err
		}
	}
	return t.Sync(path.Dir(to))
}

// Sync makes the entries of a directory durable.
func (t *Tree) Sync(dir string) error {
	d, err := t.root.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	t.before("sync", dir)
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", t.Path(dir), err)
	}
	return nil
}

// Mkdir makes a directory and its parents; those that exist stay as they are.
func (t *Tree) Mkdir(name string, mode fs.FileMode) error {
	if name == "." || name == "" {
		return nil
	}
	if err := t.Mkdir(path.Dir(name), mode); err != nil {
		return err
	}
	if made, err := t.make(name, mode); err != nil || !made {
		return err
	}
	return t.Sync(path.Dir(name))
}

// make makes a directory that is not durable yet, unless it is there.
func (t *Tree) make(name string, mode fs.FileMode) (made bool, err error) {
	t.before("make", name)
	switch err := t.root.Mkdir(name, mode); {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("make directory: %w", err)
	}
	t.before("chmod", name)
	if err := t.root.Chmod(name, mode); err != nil { // whatever the umask is
		return false, fmt.Errorf("make directory: %w", err)
	}
	return true, nil
}

// Remove removes name with all below it; one that is not there is no error.
func (t *Tree) Remove(name string) error {
	t.before("remove", name)
	if err := ignoreNotExist(t.root.RemoveAll(name)); err != nil {
		return fmt.Errorf("remove %s: %w", t.Path(name), err)
	}
	if err := t.Sync(path.Dir(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Symlink makes name a symbolic link to target, replacing a file or link there in one step.
func (t *Tree) Symlink(target, name string) error {
	tmp := path.Join(path.Dir(name), tempPrefix+rand.Text())
	t.before("link", name)
	if err := t.root.Symlink(target, tmp); err != nil {
		return fmt.Errorf("make link: %w", err)
	}
	return t.Rename(tmp, name)
}

// Read reads a regular file of at most limit bytes; it never blocks on a FIFO and follows no link.
func (t *Tree) Read(name string, limit int64) ([]byte, error) {
	f, fi, err := t.openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi.Size() > limit {
		return nil, fmt.Errorf("read %s: %d bytes, more than the %d allowed", t.Path(name), fi.Size(), limit)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return b, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
