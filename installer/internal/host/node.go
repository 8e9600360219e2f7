package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"quiesce/manifests/profile"
	"quiesce/plugin/stage"
)

// Job is what systemd is asked to do with a unit.
type Job string

// The jobs. Restart starts a unit that does not run.
const (
	Restart Job = "restart"
	Stop    Job = "stop"
)

// State is what systemd makes of a unit.
type State struct {
	Active  string    // ActiveState
	Stale   bool      // systemd knows the unit otherwise than it is on disk
	Unknown bool      // systemd knows no such unit
	PID     int       // of its main process, or 0
	Began   time.Time // when that was started
}

// Units is the running systemd.
type Units interface {
	State(ctx context.Context, unit string) (State, error)
	Reload(ctx context.Context) error
	Run(ctx context.Context, job Job, unit string) error
}

// Node is the root directory of a node. Names below it have no leading slash.
type Node struct {
	dir     string
	tree    *stage.Tree // writes
	look    *os.Root    // reads, as confined as the writes
	units   Units       // nil: nothing runs there
	say     func(string)
	changed bool
	keep    bool            // handlers stay while quiesce goes
	peer    profile.Peer    // nil: no runtime runs there
	profile profile.Profile // once it was checked
	why     []string        // the runtime was taken for what it is; told before the first change
}

// Open opens the node whose root is dir. units is nil for an image, in which nothing runs; say is told what is done.
func Open(dir string, units Units, say func(string)) (*Node, error) {
	tree, err := stage.OpenTree(dir)
	if err != nil {
		return nil, err
	}
	look, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open root: %w", err), tree.Close())
	}
	return &Node{dir: dir, tree: tree, look: look, units: units, say: say}, nil
}

// Ask makes the node ask who is behind the runtime's socket.
func (n *Node) Ask(peer profile.Peer) { n.peer = peer }

// Close releases the directory.
func (n *Node) Close() error { return errors.Join(n.tree.Close(), n.look.Close()) }

// did notes a change.
func (n *Node) did(format string, args ...any) {
	for _, why := range n.why {
		n.say("found: " + why)
	}
	n.why, n.changed = nil, true
	n.say(fmt.Sprintf(format, args...))
}

// source opens what is to be written.
type source func() (io.ReadCloser, error)

func fromBytes(b []byte) source {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

func fromFile(path string) source {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read program: %w", err)
		}
		return f, nil
	}
}

// put writes a file unless it is there with the same bytes and mode, and tells whether it did.
func (n *Node) put(name string, mode fs.FileMode, src source) (bool, error) {
	same, err := n.same(name, mode, src)
	if err != nil || same {
		return false, err
	}
	r, err := src()
	if err != nil {
		return false, err
	}
	defer r.Close()
	if err := n.tree.Write(name, r, stage.Attr{Mode: mode}); err != nil {
		return false, err
	}
	n.did("wrote /%s", name)
	return true, nil
}

func (n *Node) same(name string, mode fs.FileMode, src source) (bool, error) {
	fi, err := n.look.Lstat(name)
	if err != nil || fi.Mode() != mode { // not there, of another kind, or of another mode
		return false, nil //nolint:nilerr // what cannot be read is written, and that tells the error
	}
	want, err := digest(src)
	if err != nil {
		return false, err
	}
	have, err := digest(func() (io.ReadCloser, error) { return n.look.Open(name) })
	return err == nil && have == want, nil
}

func digest(src source) (sum [sha256.Size]byte, err error) {
	r, err := src()
	if err != nil {
		return sum, err
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return sum, fmt.Errorf("read file: %w", err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// link makes name a link to target unless it is one.
func (n *Node) link(name, target string) error {
	if to, err := n.look.Readlink(name); err == nil && to == target {
		return nil
	}
	if err := n.tree.Symlink(target, name); err != nil {
		return err
	}
	n.did("linked /%s", name)
	return nil
}

// drop removes name with all below it, if it is there.
func (n *Node) drop(name string) error {
	if !n.exists(name) {
		return nil
	}
	if err := n.tree.Remove(name); err != nil {
		return err
	}
	n.did("removed /%s", name)
	return nil
}

// dropEmpty removes a directory if nothing is in it.
func (n *Node) dropEmpty(dir string) error {
	if names, err := n.list(dir); err != nil || len(names) > 0 {
		return nil //nolint:nilerr // not a directory: nothing of ours
	}
	return n.drop(dir)
}

func (n *Node) exists(name string) bool {
	_, err := n.look.Lstat(name)
	return err == nil
}

func (n *Node) list(dir string) ([]string, error) {
	des, err := fs.ReadDir(n.look.FS(), dir)
	if err != nil {
		return nil, fmt.Errorf("list directory: %w", err)
	}
	var names []string
	for _, de := range des {
		names = append(names, de.Name())
	}
	return names, nil
}
