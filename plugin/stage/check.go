package stage

import (
	"fmt"
	"os"
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
