package stage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// MaxAttempts is how often an entry is tried when apply is interrupted.
const MaxAttempts = 3

// DefaultDir is where the stage is on a node.
const DefaultDir = "/var/lib/quiesce"

// Entry is a manifest with what the store knows of it.
type Entry struct {
	Manifest
	State
	Err error `json:"-"` // why it cannot be used: a manifest that cannot be read or is not valid
}

// State is what the store remembers of an entry, in its state.json.
type State struct {
	Seq      int64     `json:"seq,omitempty"`      // order in which entries were taken: of two that name a handler the later one counts
	Attempts int       `json:"attempts,omitempty"` // how often apply began with it
	Alone    bool      `json:"alone,omitempty"`    // a batch with it failed: it is tried by itself
	Staged   time.Time `json:"staged,omitzero"`    // when it was first seen
	Reason   string    `json:"reason,omitempty"`   // why it is in bad
}

// Store is the daemon's and apply's view of a stage. Reading needs no lock; whoever moves entries holds Lock.
type Store struct {
	dir                   string
	inbox, store, results *Tree
	step                  func(string) // see Steps
}

// Create makes the rooms below dir, for `quiesce-installer host`. Rooms that exist are left as they are.
func Create(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:forbidigo,gosec // results are for everybody; the stage itself: nothing of the host to protect yet
		return fmt.Errorf("create stage: %w", err)
	}
	t, err := OpenTree(dir)
	if err != nil {
		return err
	}
	defer t.Close()
	rooms := map[string]fs.FileMode{
		"inbox": 0o700, "inbox/tmp": 0o700, "inbox/new": 0o700,
		"store": 0o700, "store/act": 0o700, "store/cur": 0o700, "store/bad": 0o700, "results": 0o755,
	}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		if err := t.Mkdir(room, rooms[room]); err != nil {
			return err
		}
	}
	return nil
}

// Open opens the stage at dir.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	var errs error
	open := func(room string) *Tree {
		t, err := OpenTree(filepath.Join(dir, room))
		errs = errors.Join(errs, err)
		return t
	}
	s.inbox, s.store, s.results = open(inboxRoom), open(storeRoom), open(resultsRoom)
	if errs != nil {
		return nil, fmt.Errorf("open stage: %w; `quiesce-installer host` makes it", errs)
	}
	return s, nil
}

// Steps has f called before each change of the file system, for tests.
func (s *Store) Steps(f func(name string)) {
	s.step = f
	for _, t := range []*Tree{s.inbox, s.store, s.results} {
		t.Steps(f)
	}
}

// Close releases the rooms.
func (s *Store) Close() error {
	return errors.Join(s.inbox.Close(), s.store.Close(), s.results.Close())
}

// Inbox is the path installers write to.
func (s *Store) Inbox() string { return filepath.Join(s.dir, inboxRoom) }

// ErrLocked says that another apply is running.
var ErrLocked = errors.New("another apply is running")

// Lock takes the store for one apply, or returns ErrLocked at once. The kernel gives it back if the process dies.
func (s *Store) Lock() (unlock func() error, err error) {
	f, err := s.store.root.OpenFile("lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock store: %w", err)
	}
	if err := syscall.FcntlFlock(f.Fd(), ofdSetLock, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return nil, errors.Join(ErrLocked, f.Close())
	}
	return f.Close, nil
}

// Locks of open file descriptions, fcntl(2): they end with the process, and can be asked for without being taken.
const (
	ofdGetLock = 36
	ofdSetLock = 37
)

// Locked tells whether an apply runs.
func (s *Store) Locked() bool {
	f, err := s.store.root.Open("lock")
	if err != nil {
		return false
	}
	defer f.Close()
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	return syscall.FcntlFlock(f.Fd(), ofdGetLock, &l) == nil && l.Type != syscall.F_UNLCK
}

// Hold is an operator's or a drain's veto on apply; it outlives the daemon.
type Hold struct {
	Who   string    `json:"who"`
	Since time.Time `json:"since"`
}

// SetHold vetoes; an empty who ends it.
func (s *Store) SetHold(who string) error {
	if who == "" {
		return s.store.Remove("hold.json")
	}
	return s.store.writeJSON("hold.json", Hold{Who: who, Since: time.Now().UTC()}, 0o600)
}

// Hold is zero if nobody vetoes. One that cannot be read vetoes.
func (s *Store) Hold() Hold {
	b, err := s.store.Read("hold.json", MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return Hold{}
	}
	var h Hold
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil {
		h.Who = err.Error()
	}
	return h
}

// Staged lists the inbox, by creation.
func (s *Store) Staged() ([]Entry, error) { return s.entries(s.inbox, "new") }

// Acting lists what was taken and is not settled, in the order in which it was taken.
func (s *Store) Acting() ([]Entry, error) { return s.own("act") }

// Rejected lists what is in bad.
func (s *Store) Rejected() ([]Entry, error) { return s.own("bad") }

// Pending is Acting, then Staged: the order in which they count.
func (s *Store) Pending() ([]Entry, error) {
	acting, err := s.Acting()
	if err != nil {
		return nil, err
	}
	staged, err := s.Staged()
	if err != nil {
		return nil, err
	}
	return slices.Concat(acting, slices.DeleteFunc(staged, func(e Entry) bool {
		return slices.ContainsFunc(acting, func(a Entry) bool { return a.ID == e.ID })
	})), nil
}

func byOrder(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
}

// Current lists what is live and what was removed last, in the order in which it was taken.
func (s *Store) Current() ([]Entry, error) { return s.own("cur") }

// own lists a room of the store. An entry that a fault of this host keeps from being read is an error: without it others
// would seem to count.
func (s *Store) own(room string) ([]Entry, error) {
	all, err := s.entries(s.store, room)
	for _, e := range all {
		if hostFault(e.Err) {
			err = errors.Join(err, fmt.Errorf("read entry %s: %w", s.store.Path(path.Join(room, e.ID)), e.Err))
		}
	}
	return all, err
}

func (s *Store) entries(t *Tree, room string) ([]Entry, error) {
	at, err := t.pin(room)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	names, err := at.list(".")
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, n := range names {
		e := at.read(n)
		if e.Err != nil && !exists(at, n) {
			continue // moved on meanwhile
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, byOrder)
	return out, nil
}

// read reads the entry id of a room.
func (t *Tree) read(id string) (e Entry) {
	dir, err := t.pin(id)
	if err == nil {
		defer dir.Close()
		if e.State, err = dir.state(); err == nil {
			e.Manifest, err = dir.entry(id)
		}
	}
	if err != nil {
		e.Err, e.ID = err, id
	}
	return e
}

// exists is false only where there is nothing for certain.
func exists(t *Tree, name string) bool {
	_, err := t.root.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// state is an error only for a fault of this host; one that is not what it should be counts as none.
func (t *Tree) state() (st State, err error) {
	b, err := t.Read("state.json", MaxManifest)
	if hostFault(err) {
		return st, err
	}
	if err == nil {
		_ = json.Unmarshal(b, &st)
	}
	return st, nil
}

// Last gives for each handler the entry that counts: the one taken last.
func Last(es []Entry) map[string]Entry {
	last := map[string]Entry{}
	for _, e := range es {
		for _, h := range e.Handlers {
			if old, ok := last[h.Name]; !ok || byOrder(old, e) < 0 {
				last[h.Name] = e
			}
		}
	}
	return last
}

// Live gives for each live handler the entry that it comes from.
func Live(es []Entry) map[string]Entry {
	live := Last(es)
	maps.DeleteFunc(live, func(_ string, e Entry) bool { return e.Op == Remove })
	return live
}

// Handler is the declaration of a handler of the entry.
func (m *Manifest) Handler(name string) (Handler, bool) {
	i := slices.IndexFunc(m.Handlers, func(h Handler) bool { return h.Name == name })
	if i < 0 {
		return Handler{}, false
	}
	return m.Handlers[i], true
}
