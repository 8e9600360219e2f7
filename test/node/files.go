package node

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Path is the name, outside the node, of a file in it. It changes with every power-on, and a symbolic link with an
// absolute target leads out of the node; ReadFile and WriteFile refuse those.
func (n *Node) Path(name string) string {
	return filepath.Join(n.root(), filepath.Clean("/"+name))
}

// root is the node's root directory as seen from outside: through its init process while it runs, else the disk.
func (n *Node) root() string {
	if p := n.current(); p != nil {
		return fmt.Sprintf("/proc/%d/root", p.pid)
	}
	return filepath.Join(n.dir, "rootfs")
}

// ReadFile reads a file of the node, on or off.
func (n *Node) ReadFile(name string) ([]byte, error) {
	root, err := os.OpenRoot(n.root())
	if err != nil {
		return nil, fmt.Errorf("open root of %s: %w", n.ID, err)
	}
	defer func() { _ = root.Close() }()
	data, err := root.ReadFile(rel(name))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// WriteFile writes a file of the node, on or off, beside its name and then renames it. Missing directories are created.
func (n *Node) WriteFile(name string, data []byte, mode os.FileMode) error {
	return n.write(name, bytes.NewReader(data), mode)
}

func (n *Node) write(name string, content io.Reader, mode os.FileMode) error {
	root, err := os.OpenRoot(n.root())
	if err != nil {
		return fmt.Errorf("open root of %s: %w", n.ID, err)
	}
	defer func() { _ = root.Close() }()
	if err := writeIn(root, rel(name), content, mode); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeIn(root *os.Root, name string, content io.Reader, mode os.FileMode) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	tmp := path.Join(path.Dir(name), ".tmp-"+rand.Text())
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return nil
}

// rel makes a path of the node relative to its root.
func rel(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
