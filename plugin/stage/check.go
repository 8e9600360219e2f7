package stage

import (
	"fmt"
	"os"
	"path"
	"syscall"
	"time"
)

// Dir is where the stage is.
func (s *Store) Dir() string { return s.dir }

// Check tells whether the rooms are still where they were opened: not removed, replaced or mounted over. A store of which
// they are not has to be opened anew.
func (s *Store) Check() error {
	for _, t := range []*Tree{s.inbox, s.store, s.results} {
		now, err := os.Stat(t.path)
		if err != nil {
			return fmt.Errorf("the stage is gone: %w; `quiesce-installer host` makes it", err)
		}
		was, err := t.root.Stat(".")
		if err != nil {
			return fmt.Errorf("the stage cannot be read: %w", err)
		}
		if !os.SameFile(was, now) {
			return fmt.Errorf("the stage was replaced: %s is another directory", t.path)
		}
	}
	return nil
}

// Mark is what the rooms look like from outside. A change of one that is staged, taken, settled, held, or published gives
// another, except where it comes within the time that the file system dates alike.
type Mark [5]struct {
	dev, ino uint64
	changed  time.Duration // since 1970
}

// Mark is cheap. changed is when the rooms changed last; a room that is not there has never changed.
func (s *Store) Mark() (m Mark, changed time.Time) {
	for i, room := range [len(m)]string{inboxRoom, inboxRoom + "/new", storeRoom, storeRoom + "/act", resultsRoom} {
		var st syscall.Stat_t
		if err := syscall.Stat(path.Join(s.dir, room), &st); err != nil {
			continue
		}
		m[i].dev, m[i].ino = uint64(st.Dev), st.Ino //nolint:unconvert // on some architectures it is narrower
		m[i].changed = time.Duration(st.Ctim.Nano())
		if at := time.Unix(0, st.Ctim.Nano()); at.After(changed) {
			changed = at
		}
	}
	return m, changed
}
