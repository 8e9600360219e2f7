package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
)

// oPath is O_PATH of open(2): the descriptor names a file and opens nothing. With O_NOFOLLOW, which os.Root adds, it
// names a symbolic link itself; no device or FIFO is ever opened.
const oPath = 0o10000000

// point names a file of the tree, of whatever kind. Links in the directories of name are followed, as far as they stay
// in the tree; the last part never is.
func (t *Tree) point(name string) (*os.File, fs.FileInfo, error) {
	f, err := t.root.OpenFile(name, oPath, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", t.Path(name), cause(err))
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open %s: %w", t.Path(name), cause(err)), f.Close())
	}
	return f, fi, nil
}

// cause drops what a path error says beside its cause: the whole path is told already.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// pin opens a directory of the tree as a tree of its own: whatever is renamed meanwhile, it stays this directory.
func (t *Tree) pin(name string) (*Tree, error) {
	at, fi, err := t.point(name)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	if !fi.IsDir() {
		return nil, fmt.Errorf("open %s: %s, not a directory", t.Path(name), kind(fi.Mode()))
	}
	root, err := os.OpenRoot(fdPath(at))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", t.Path(name), cause(err))
	}
	return &Tree{root: root, path: t.Path(name), step: t.step}, nil
}

// openRegular opens a file that is regular and has one name: the very one that was looked at.
func (t *Tree) openRegular(name string) (*os.File, fs.FileInfo, error) {
	at, fi, err := t.point(name)
	if err != nil {
		return nil, nil, err
	}
	defer at.Close()
	if !fi.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("read %s: %s, not a regular file", t.Path(name), kind(fi.Mode()))
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Nlink != 1 {
		return nil, nil, fmt.Errorf("read %s: has %d hard links, not one", t.Path(name), st.Nlink)
	}
	fd, err := syscall.Open(fdPath(at), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", t.Path(name), err)
	}
	return os.NewFile(uintptr(fd), t.Path(name)), fi, nil
}

// entry reads the manifest of an entry, whose directory the tree is and whose id is its name.
func (t *Tree) entry(id string) (Manifest, error) {
	b, err := t.Read(manifestName, MaxManifest)
	if err != nil {
		return Manifest{}, err
	}
	m, err := ParseManifest(b)
	if err == nil && m.ID != id {
		err = fieldError("id", m.ID, "is not the name of its directory, "+strconv.Quote(id))
	}
	return m, err
}

// holds refuses a directory with other names in it than these. It reads no more of it than that takes.
func (t *Tree) holds(names ...string) error {
	d, err := t.root.Open(".")
	if err != nil {
		return fmt.Errorf("list %s: %w", t.path, cause(err))
	}
	defer d.Close()
	have, err := d.Readdirnames(len(names) + 1)
	if err != nil && len(have) > 0 {
		return fmt.Errorf("list %s: %w", t.path, cause(err))
	}
	for _, n := range have {
		if !slices.Contains(names, n) {
			return fmt.Errorf("%s: is not in the manifest, and nothing but what is in it may be there", strconv.Quote(short(t.Path(n))))
		}
	}
	return nil
}

func short(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}

// indexes are the names of n payload files.
func indexes(n int) (names []string) {
	for i := range n {
		names = append(names, strconv.Itoa(i))
	}
	return names
}

// staged opens the directory of an entry in the inbox. No link is followed.
func (s *Store) staged(id string) (*Tree, error) {
	room, err := s.inbox.pin("new")
	if err != nil {
		return nil, err
	}
	defer room.Close()
	return room.pin(id)
}

// hostFault tells a fault of this host, which passes, from one of an entry.
func hostFault(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE,
		syscall.ESTALE, syscall.EACCES, syscall.EPERM,
	}, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// LeftError says that an entry was dealt with, and that the inbox still has it.
type LeftError struct{ error }

func (e *LeftError) Unwrap() error { return e.error }

// leave removes an entry from the inbox.
func (s *Store) leave(id string) error {
	if err := s.inbox.Remove(path.Join("new", id)); err != nil {
		return &LeftError{err}
	}
	return nil
}

func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
