package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"time"
)

// Take copies a staged entry into act and checks the copy. An entry that is not what its manifest
// says is rejected, and the reason returned as *RejectedError. Needs Lock.
func (s *Store) Take(ctx context.Context, e Entry) (Entry, error) {
	switch known, err := s.known(e.ID); {
	case err != nil:
		return e, err
	case known: // a crash came between copy and removal, or the id was used before
		return e, s.leave(e.ID)
	}
	part := path.Join("act", "."+e.ID)
	if err := s.store.Remove(part); err != nil {
		return e, err
	}
	e, err := s.copyEntry(ctx, e, part)
	if bad, ok := errors.AsType[*RejectedError](err); ok {
		if !exists(s.inbox, path.Join("new", e.ID)) { // its writer took it back
			return e, s.store.Remove(part)
		}
		return e, errors.Join(err, s.store.Remove(part), s.rejectStaged(e, bad.Reason))
	}
	if err != nil {
		return e, errors.Join(err, s.store.Remove(part))
	}
	if err := s.store.Rename(part, path.Join("act", e.ID)); err != nil {
		return e, err
	}
	return e, s.leave(e.ID)
}

func (s *Store) known(id string) (bool, error) {
	for _, room := range []string{"act", "cur", "bad"} {
		if _, err := s.store.root.Lstat(path.Join(room, id)); !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// RejectedError says why an entry can never be applied.
type RejectedError struct {
	ID     string
	Reason string
}

func (e *RejectedError) Error() string { return e.Reason }

func (s *Store) copyEntry(ctx context.Context, e Entry, part string) (Entry, error) {
	from, err := s.staged(e.ID)
	if err != nil {
		return e, s.refuse(e.ID, payloadError{err})
	}
	defer from.Close()
	m, err := from.entry(e.ID) // once more: what counts is what is copied
	if err == nil {
		err = from.holds(manifestName, filesDir)
	}
	if err != nil {
		return e, s.refuse(e.ID, payloadError{err})
	}
	e.Manifest, e.Err = m, nil
	if err := s.copyFiles(ctx, m, from, path.Join(part, filesDir)); err != nil {
		return e, s.refuse(e.ID, err)
	}
	seq, err := s.nextSeq()
	if err != nil {
		return e, err
	}
	e.State = State{Seq: seq, Staged: time.Now().UTC()}
	if err := s.store.writeJSON(path.Join(part, manifestName), m, 0o600); err != nil {
		return e, err
	}
	return e, s.store.writeJSON(path.Join(part, "state.json"), e.State, 0o600)
}

// payloadError is a fault of the payload itself, not of this host's disk.
type payloadError struct{ error }

func (s *Store) refuse(id string, err error) error {
	if p, ok := errors.AsType[payloadError](err); ok && !hostFault(p.error) {
		return &RejectedError{id, p.Error()}
	}
	return err
}

func (s *Store) copyFiles(ctx context.Context, m Manifest, entry *Tree, to string) error {
	if err := s.store.Mkdir(to, 0o700); err != nil {
		return err
	}
	if len(m.Files) == 0 && !exists(entry, filesDir) {
		return nil
	}
	from, err := entry.pin(filesDir)
	if err != nil {
		return payloadError{err}
	}
	defer from.Close()
	if err := from.holds(indexes(len(m.Files))...); err != nil {
		return payloadError{err}
	}
	for i, f := range m.Files {
		if err := s.copyFile(ctx, f, from, strconv.Itoa(i), path.Join(to, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) copyFile(ctx context.Context, f File, from *Tree, name, to string) error {
	src, fi, err := from.openRegular(name)
	if err != nil {
		return payloadError{err}
	}
	defer src.Close()
	if fi.Size() != f.Size {
		return payloadError{fmt.Errorf("file %s: is %d bytes, the manifest says %d", f.Name, fi.Size(), f.Size)}
	}
	got, err := s.store.copyDigest(ctx, to, io.LimitReader(src, f.Size), nil)
	if err != nil {
		return err
	}
	if got.SHA256 != f.SHA256 {
		return payloadError{fmt.Errorf("file %s: its sha256 is %s, the manifest says %s", f.Name, got.SHA256, f.SHA256)}
	}
	if f.Mode == 0o755 {
		return s.store.checkProgram(to, f.Name)
	}
	return nil
}

// rejectStaged moves what can be kept of a bad entry, without its payload, from the inbox to bad.
func (s *Store) rejectStaged(e Entry, reason string) error {
	id := e.ID
	if !idForm.MatchString(id) {
		sum := sha256.Sum256([]byte(id))
		id = "unnamed-" + hex.EncodeToString(sum[:6])
	}
	part := path.Join("bad", "."+id)
	st := State{Staged: time.Now().UTC(), Reason: reason}
	err := errors.Join(s.store.Remove(part), s.store.Mkdir(part, 0o700), s.store.writeJSON(path.Join(part, "state.json"), st, 0o600))
	if b := s.stagedManifest(e.ID); b != nil && err == nil {
		err = s.store.WriteBytes(path.Join(part, manifestName), b, Attr{Mode: 0o600})
	}
	if err != nil {
		return err
	}
	if err := s.move(part, path.Join("bad", id)); err != nil {
		return err
	}
	return s.leave(e.ID)
}

// stagedManifest is what can be read of a bad entry, or nil.
func (s *Store) stagedManifest(id string) []byte {
	t, err := s.staged(id)
	if err != nil {
		return nil
	}
	defer t.Close()
	b, err := t.Read(manifestName, MaxManifest)
	if err != nil {
		return nil
	}
	return b
}

// move replaces what is at to.
func (s *Store) move(from, to string) error {
	if err := s.store.Remove(to); err != nil {
		return err
	}
	return s.store.Rename(from, to)
}

// Payload opens payload file i of an entry in act.
func (s *Store) Payload(id string, i int) (io.ReadCloser, error) {
	f, _, err := s.store.openRegular(path.Join("act", id, filesDir, strconv.Itoa(i)))
	return f, err
}

// nextSeq is one more than every entry that may still be compared with a new one has.
func (s *Store) nextSeq() (int64, error) {
	acting, err := s.Acting()
	if err != nil {
		return 0, err
	}
	current, err := s.Current()
	if err != nil {
		return 0, err
	}
	var last int64
	for _, e := range slices.Concat(acting, current) {
		last = max(last, e.Seq)
	}
	return last + 1, nil
}

// Remember writes what the store knows of an entry in act. Needs Lock.
func (s *Store) Remember(e Entry) error {
	return s.store.writeJSON(path.Join("act", e.ID, "state.json"), e.State, 0o600)
}

// Settle makes an entry of act live and drops those of cur that count no more. Needs Lock.
func (s *Store) Settle(e Entry) error {
	dir := path.Join("act", e.ID)
	if err := s.store.Remove(path.Join(dir, filesDir)); err != nil { // the files are in place by now
		return err
	}
	if err := s.store.Rename(dir, path.Join("cur", e.ID)); err != nil {
		return err
	}
	current, err := s.Current()
	if err != nil {
		return err
	}
	for _, old := range Outdated(current) {
		err = errors.Join(err, s.store.Remove(path.Join("cur", old.ID)))
	}
	return err
}

// Outdated lists the entries none of whose handlers they are the last to name. Of one that cannot be read nobody knows.
func Outdated(es []Entry) []Entry {
	last := Last(es)
	var out []Entry
	for _, e := range es {
		if e.Err == nil && !slices.ContainsFunc(e.Handlers, func(h Handler) bool { return last[h.Name].ID == e.ID }) {
			out = append(out, e)
		}
	}
	return out
}

// Reject moves an entry from act to bad, without its payload. Needs Lock.
func (s *Store) Reject(e Entry, reason string) error {
	dir := path.Join("act", e.ID)
	e.Reason = reason
	if err := s.store.writeJSON(path.Join(dir, "state.json"), e.State, 0o600); err != nil {
		return err
	}
	if err := s.store.Remove(path.Join(dir, filesDir)); err != nil {
		return err
	}
	return s.move(dir, path.Join("bad", e.ID))
}

// Discard drops an entry of act that a later one made void. Needs Lock.
func (s *Store) Discard(e Entry) error { return s.store.Remove(path.Join("act", e.ID)) }

// Sweep removes what crashed writers left behind: drafts older than an hour, and copies nobody makes any more. Needs Lock.
func (s *Store) Sweep(now time.Time) error {
	var errs error
	for _, n := range s.leftovers(s.inbox, "tmp", now, time.Hour) {
		errs = errors.Join(errs, s.inbox.Remove(n))
	}
	for _, old := range s.tooMany() {
		errs = errors.Join(errs, s.store.Remove(path.Join("bad", old)))
	}
	for _, room := range []string{"act", "bad"} {
		for _, n := range s.leftovers(s.store, room, now, 0) {
			if path.Base(n)[0] == '.' {
				errs = errors.Join(errs, s.store.Remove(n))
			}
		}
	}
	return errs
}

// tooMany lists the oldest entries of bad beyond keepResults.
func (s *Store) tooMany() (ids []string) {
	bad, err := s.Rejected()
	if err != nil {
		return nil
	}
	slices.SortStableFunc(bad, func(a, b Entry) int { return a.Staged.Compare(b.Staged) })
	for len(bad) > keepResults {
		ids, bad = append(ids, bad[0].ID), bad[1:]
	}
	return ids
}

func (s *Store) leftovers(t *Tree, room string, now time.Time, age time.Duration) []string {
	d, err := t.root.Open(room)
	if err != nil {
		return nil
	}
	defer d.Close()
	fis, err := d.Readdir(-1)
	if err != nil {
		return nil
	}
	var out []string
	for _, fi := range fis {
		if stale(fi.ModTime(), now, age) {
			out = append(out, path.Join(room, fi.Name()))
		}
	}
	return out
}
