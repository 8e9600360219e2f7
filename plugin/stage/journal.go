package stage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"
)

// Step is how far the transaction of a journal is.
type Step string

// The steps of a transaction. A crash in StepWriting or StepRestarting is rolled back; StepUnverified waits for containerd;
// in StepOwed nothing is left to be put back; in StepVerified the entries have only to be settled.
const (
	StepWriting    Step = "writing"    // host files may be old or new
	StepRestarting Step = "restarting" // host files are new, the runtime may run with either
	StepUnverified Step = "unverified" // written at boot; the runtime will start with them
	StepOwed       Step = "owed"       // host files are old again, the runtime may run with new ones: it has to be restarted
	StepVerified   Step = "verified"   // the runtime runs with the new files, and is right
)

// Change is one file of the host to write, replace or remove.
type Change struct {
	Path     string
	Old, New []byte // nil: the file is not there
	Attr     Attr
}

// Undo is a change as the journal keeps it.
type Undo struct {
	Path   string `json:"path"`
	Attr   Attr   `json:"attr"`
	Copy   string `json:"copy,omitempty"`    // the old bytes, below store/undo; empty: there was no file
	NewSum string `json:"new_sum,omitempty"` // sha256 of the new bytes; empty: the file is removed
}

// Init is the first process of a container.
type Init struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // in clock ticks since boot: a PID that is used again has another one
}

// Journal is the transaction that is under way. It is on disk before the first host file is touched.
type Journal struct {
	Entries []string  `json:"entries"` // in the order in which they count
	Step    Step      `json:"step"`
	Undo    []Undo    `json:"undo"`
	Process string    `json:"process,omitempty"` // the runtime's process before the restart
	Owed    bool      `json:"owed,omitempty"`    // that process runs with files of an earlier transaction, which are put back
	Began   time.Time `json:"began"`

	Ran  map[string]Init `json:"ran,omitempty"`  // by container, what ran before the restart and is not known to have ended
	Lost []string        `json:"lost,omitempty"` // containers whose exit codes the restart lost; with StepVerified
}

const journalName = "journal.json"

// Journal reads the transaction that is under way, or nil.
func (s *Store) Journal() (*Journal, error) {
	b, err := s.store.Read(journalName, MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no journal is the usual case
	}
	if err != nil {
		return nil, err
	}
	var j Journal
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.store.Path(journalName), err)
	}
	return &j, nil
}

// OpenJournal writes the undo copies and then the journal: from then on the host can be put back. A journal that is
// there must owe nothing but a restart. Needs Lock.
func (s *Store) OpenJournal(j *Journal, changes []Change) error {
	if err := errors.Join(s.store.Remove("undo"), s.store.Mkdir("undo", 0o700)); err != nil {
		return err
	}
	for i, c := range changes {
		u := Undo{Path: c.Path, Attr: c.Attr, NewSum: sum(c.New)}
		if c.Old != nil {
			u.Copy = path.Join("undo", strconv.Itoa(i))
			if err := s.store.WriteBytes(u.Copy, c.Old, Attr{Mode: 0o600}); err != nil {
				return err
			}
		}
		j.Undo = append(j.Undo, u)
	}
	return s.Advance(j, StepWriting)
}

// Owe ends the rollback of a transaction whose changes the runtime may run with. Needs Lock.
func (s *Store) Owe(j *Journal) error {
	j.Undo, j.Process = nil, "" // whatever runs has to be restarted
	return s.Advance(j, StepOwed)
}

// Advance records the step that is about to begin. Needs Lock.
func (s *Store) Advance(j *Journal, step Step) error {
	j.Step = step
	return s.store.writeJSON(journalName, j, 0o600)
}

// End ends the transaction: what the host's files are now is right. Needs Lock.
func (s *Store) End() error {
	if err := s.store.Remove(journalName); err != nil {
		return err
	}
	return s.store.Remove("undo") // a full disk may need the space
}

// Rollback puts the host's files back as they were. A file that someone else changed meanwhile is put back too,
// and what they wrote is kept in store/kept. Needs Lock.
func (s *Store) Rollback(j *Journal) (conflicts []string, err error) {
	for i, u := range j.Undo {
		if err := sweepHost(filepath.Dir(u.Path)); err != nil {
			return conflicts, err
		}
		var old []byte
		if u.Copy != "" {
			b, rerr := s.store.Read(u.Copy, MaxFile)
			if rerr != nil {
				return conflicts, rerr
			}
			old = b
		}
		now, rerr := readHost(u.Path)
		if rerr != nil {
			return conflicts, rerr
		}
		if now != nil && sum(now) != u.NewSum && !bytes.Equal(now, old) {
			kept := path.Join("kept", fmt.Sprintf("%d-%d-%s", j.Began.Unix(), i, filepath.Base(u.Path)))
			if err := errors.Join(s.store.Mkdir("kept", 0o700), s.store.WriteBytes(kept, now, Attr{Mode: 0o600})); err != nil {
				return conflicts, err
			}
			conflicts = append(conflicts, fmt.Sprintf("%s was changed by someone else meanwhile; their version is kept as %s", u.Path, s.store.Path(kept)))
		}
		if err := s.writeHost(Change{Path: u.Path, Old: now, New: old, Attr: u.Attr}); err != nil {
			return conflicts, err
		}
	}
	return conflicts, nil
}

// writeHost makes one change on the host, durable when it returns.
func (s *Store) writeHost(c Change) error {
	if c.Old == nil && c.New == nil || c.Old != nil && bytes.Equal(c.Old, c.New) && c.New != nil {
		return nil
	}
	dir, name := filepath.Split(c.Path)
	if err := s.makeParents(dir); err != nil {
		return err
	}
	t, err := OpenTree(dir)
	if err != nil {
		return err
	}
	defer t.Close()
	t.Steps(s.step)
	if c.New == nil {
		return t.Remove(name)
	}
	return t.WriteBytes(name, c.New, c.Attr)
}

// sweepHost removes what a crash left half written beside a file of the host.
func sweepHost(dir string) error {
	t, err := OpenTree(dir)
	if err != nil {
		return ignoreNotExist(err)
	}
	defer t.Close()
	return t.SweepTemp(".")
}

func (s *Store) makeParents(dir string) error {
	t, err := OpenTree("/")
	if err != nil {
		return err
	}
	defer t.Close()
	t.Steps(s.step)
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		return nil
	}
	rel, err := filepath.Rel("/", filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return t.Mkdir(rel, 0o755)
}

// readHost reads a host file; nil if it is not there.
func readHost(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read host file: %w", err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

func sum(b []byte) string {
	if b == nil {
		return ""
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
