package stage

import (
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"time"
)

// tempPrefix begins the names of files that are being written.
const tempPrefix = ".quiesce-"

// tempAge is how old a file that is being written must be to be nobody's, where others than apply write too.
const tempAge = time.Minute

// Mend ends what a crash left half said: results that are behind their entry, and files that nobody goes on writing.
// Needs Lock.
func (s *Store) Mend(now time.Time) error {
	errs := errors.Join(
		s.inbox.SweepTemp("."),
		s.store.sweepTemp(".", now, tempAge),
		s.results.sweepTemp(".", now, tempAge))
	if ids, err := s.store.list("act"); err == nil {
		for _, id := range ids {
			errs = errors.Join(errs, s.store.SweepTemp(path.Join("act", id)), s.store.SweepTemp(path.Join("act", id, filesDir)))
		}
	}
	if !exists(s.store, journalName) { // copies of a journal that was not written, or is ended
		errs = errors.Join(errs, s.store.Remove("undo"))
	}
	return errors.Join(errs, s.mendResults())
}

// runningName is there while an apply runs, and after one that died.
const runningName = "running"

// Begin notes that an apply has begun. Needs Lock.
func (s *Store) Begin() error { return s.store.WriteBytes(runningName, nil, Attr{Mode: 0o600}) }

// Done notes that it has ended in order. Needs Lock.
func (s *Store) Done() error { return s.store.Remove(runningName) }

// Interrupted tells, while none runs, whether the last apply died: another one has to end what it began.
func (s *Store) Interrupted() bool {
	return exists(s.store, runningName) || exists(s.store, journalName)
}

// mendResults says of the entries that are live, removed or rejected that they are.
func (s *Store) mendResults() error {
	current, err := s.Current()
	if err != nil {
		return err
	}
	rejected, err := s.Rejected()
	if err != nil {
		return err
	}
	for _, e := range slices.Concat(current, rejected) {
		var r Result
		if e.Err != nil || s.result(e.ID, &r) && r.Phase.Final() {
			continue
		}
		phase := e.Phase()
		if slices.ContainsFunc(rejected, func(b Entry) bool { return b.ID == e.ID }) {
			phase = Rejected
		}
		err = errors.Join(err, s.Publish(NewResult(e, phase, e.Reason)))
	}
	return err
}

// Phase is what an entry is once it has been applied.
func (m *Manifest) Phase() Phase {
	if m.Op == Remove {
		return Removed
	}
	return IsLive
}

// stale tells whether something that was written at a time is as old as age, or, because the clock was set back since,
// seems to be written that far in the future.
func stale(at, now time.Time, age time.Duration) bool {
	d := now.Sub(at)
	return age == 0 || d >= age || -d >= age
}

// sweepTemp removes what was being written in a directory and is stale.
func (t *Tree) sweepTemp(dir string, now time.Time, age time.Duration) error {
	d, err := t.root.Open(dir)
	if err != nil {
		return ignoreNotExist(err)
	}
	defer d.Close()
	fis, err := d.Readdir(-1)
	if err != nil {
		return ignoreNotExist(err)
	}
	var errs error
	for _, fi := range fis {
		if strings.HasPrefix(fi.Name(), tempPrefix) && !fi.IsDir() && stale(fi.ModTime(), now, age) {
			errs = errors.Join(errs, t.Remove(path.Join(dir, fi.Name())))
		}
	}
	return errs
}

// SweepTemp removes what a crash left half written in a directory to which only the caller writes now.
func (t *Tree) SweepTemp(dir string) error { return t.sweepTemp(dir, time.Time{}, 0) }

// GiveUp notes that what others overwrite is not repaired, and why; an empty reason ends it.
func (s *Store) GiveUp(why string) error {
	if why == "" {
		return s.store.Remove(givenUpName)
	}
	return s.store.writeJSON(givenUpName, why, 0o600)
}

// GaveUp is the reason of GiveUp, or nothing.
func (s *Store) GaveUp() string {
	var why string
	if b, err := s.store.Read(givenUpName, MaxManifest); err == nil {
		_ = json.Unmarshal(b, &why) // one that cannot be read counts as none
	}
	return why
}

const givenUpName = "given-up.json"
