package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const (
	manifestName = "manifest.json"
	filesDir     = "files"
	liveName     = "live.json"
	inboxRoom    = "inbox"
	storeRoom    = "store"
	resultsRoom  = "results"
)

// Inbox is an installer's view of a stage.
type Inbox struct{ tree *Tree }

// OpenInbox opens the inbox directory that `quiesce-installer host` made.
func OpenInbox(dir string) (*Inbox, error) {
	tree, err := OpenTree(dir)
	if err != nil {
		return nil, err
	}
	for _, room := range []string{"tmp", "new"} {
		if fi, err := tree.root.Lstat(room); err != nil || !fi.IsDir() {
			return nil, errors.Join(fmt.Errorf("open inbox: %s has no directory %q", dir, room), tree.Close())
		}
	}
	return &Inbox{tree: tree}, nil
}

// Close releases the directory.
func (b *Inbox) Close() error { return b.tree.Close() }

// Pending lists the staged entries that are entries, in no order, without those that others keep to themselves. It is an
// error that the host cannot read one: what is staged is not known then.
func (b *Inbox) Pending() ([]Manifest, error) {
	room, err := b.tree.pin("new")
	if err != nil {
		return nil, err
	}
	defer room.Close()
	names, err := room.list(".")
	if err != nil {
		return nil, err
	}
	var out []Manifest
	for _, n := range names {
		switch e := room.read(n); {
		case e.Err == nil:
			out = append(out, e.Manifest)
		case hostFault(e.Err) && !errors.Is(e.Err, fs.ErrPermission):
			return nil, fmt.Errorf("list staged entries: %w", e.Err)
		}
	}
	return out, nil
}

// Hint is what the node tells installers, who can see the inbox only.
type Hint struct {
	Live []Manifest `json:"live"` // in the order in which it went live, without what is about to be replaced
	Busy []string   `json:"busy"` // handlers of entries that are on their way, taken or not
}

// Hint reads what the node says, or nil where there is no hint. Read it after Pending: an entry leaves the inbox
// only after its handlers have left Live and are in Busy.
func (b *Inbox) Hint() *Hint {
	data, err := b.tree.Read(liveName, MaxManifest)
	if err != nil {
		return nil
	}
	var h Hint
	if json.Unmarshal(data, &h) != nil {
		return nil
	}
	return &h
}

// Live lists what the node says is live: Hint's first half, empty where there is none.
func (b *Inbox) Live() []Manifest {
	if h := b.Hint(); h != nil {
		return h.Live
	}
	return nil
}

// Source opens the payload file of an index.
type Source func(index int) (io.ReadCloser, error)

// Stage writes an entry and commits it: it is in inbox/new wholly, or not at all. Size and digest of the files
// are filled in; a digest that is given must fit. progress, which may be nil, is told the bytes as they are written.
func (b *Inbox) Stage(ctx context.Context, m Manifest, open Source, progress func(int64)) (Manifest, error) {
	tmp := path.Join("tmp", m.ID)
	for _, dir := range []string{tmp, path.Join(tmp, filesDir)} {
		if _, err := b.tree.make(dir, 0o700); err != nil { // what is written there syncs it, and the rename its parent
			return m, errors.Join(err, b.tree.Remove(tmp))
		}
	}
	m, err := b.fill(ctx, tmp, m, open, progress)
	if err == nil {
		err = b.tree.Rename(tmp, path.Join("new", m.ID))
	}
	if err != nil {
		return m, errors.Join(err, b.tree.Remove(tmp))
	}
	return m, nil
}

func (b *Inbox) fill(ctx context.Context, tmp string, m Manifest, open Source, progress func(int64)) (Manifest, error) {
	files := make([]File, len(m.Files))
	for i, f := range m.Files {
		got, err := b.copyIn(ctx, path.Join(tmp, filesDir, strconv.Itoa(i)), i, open, progress)
		if err != nil {
			return m, err
		}
		if f.SHA256 != "" && f.SHA256 != got.SHA256 {
			return m, fmt.Errorf("stage %s: its sha256 is %s, expected %s", f.Name, got.SHA256, f.SHA256)
		}
		files[i] = File{Name: f.Name, Mode: f.Mode, Size: got.Size, SHA256: got.SHA256}
	}
	m.Files = files
	if err := m.Validate(); err != nil {
		return m, err
	}
	return m, b.tree.writeJSON(path.Join(tmp, manifestName), m, 0o600)
}

func (b *Inbox) copyIn(ctx context.Context, name string, i int, open Source, progress func(int64)) (File, error) {
	src, err := open(i)
	if err != nil {
		return File{}, err
	}
	defer src.Close()
	return b.tree.copyDigest(ctx, name, src, progress)
}

// copyDigest writes src to name and tells its size and digest.
func (t *Tree) copyDigest(ctx context.Context, name string, src io.Reader, progress func(int64)) (File, error) {
	c := &counter{ctx: ctx, r: io.LimitReader(src, MaxFile+1), progress: progress}
	sum := sha256.New()
	if err := t.Write(name, hashed{c, sum}, Attr{Mode: 0o600}); err != nil {
		return File{}, err
	}
	if c.n > MaxFile {
		return File{}, fmt.Errorf("copy %s: more than the %d bytes allowed", name, MaxFile)
	}
	return File{Size: c.n, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

type counter struct {
	ctx      context.Context //nolint:containedctx // lives as long as one copy
	r        io.Reader
	n        int64
	progress func(int64)
}

func (c *counter) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.progress != nil {
		c.progress(c.n)
	}
	return n, err
}

func (t *Tree) writeJSON(name string, v any, mode fs.FileMode) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return t.WriteBytes(name, append(b, '\n'), Attr{Mode: mode})
}

// list names the entries of a directory, without those being written.
func (t *Tree) list(dir string) ([]string, error) {
	des, err := fs.ReadDir(t.root.FS(), dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", t.Path(dir), err)
	}
	var names []string
	for _, de := range des {
		if !strings.HasPrefix(de.Name(), ".") {
			names = append(names, de.Name())
		}
	}
	return names, nil
}
