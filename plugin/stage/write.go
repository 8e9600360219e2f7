package stage

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
)

// Write makes the changes on the host. What needs space is done for all of them before the first file changes, so that
// a full disk changes none. A file that is not what the change began from is an error. Needs an open journal.
func (s *Store) Write(changes []Change) (err error) {
	var all []*prepared
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.close())
		}
	}()
	for _, c := range changes {
		p, err := s.prepare(c)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.commit(); err != nil {
			return err
		}
	}
	return nil
}

// prepared is a change that only has to be renamed.
type prepared struct {
	Change
	tree *Tree
	name string
	tmp  string // empty: the file is removed, or stays as it is
}

func (s *Store) prepare(c Change) (*prepared, error) {
	if err := unchanged(c); err != nil {
		return nil, err
	}
	dir, name := filepath.Split(c.Path)
	if err := s.makeParents(dir); err != nil {
		return nil, err
	}
	t, err := OpenTree(dir)
	if err != nil {
		return nil, err
	}
	t.Steps(s.step)
	p := &prepared{Change: c, tree: t, name: name}
	if c.New == nil || !p.changes() {
		return p, nil
	}
	if p.tmp, err = t.prepare(name, bytes.NewReader(c.New), c.Attr); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return p, nil
}

// unchanged makes sure that a file is what its change began from.
func unchanged(c Change) error {
	now, err := readHost(c.Path)
	if err == nil && (!bytes.Equal(now, c.Old) || (now == nil) != (c.Old == nil)) {
		err = fmt.Errorf("write %s: someone else changed it meanwhile", c.Path)
	}
	return err
}

func (c *Change) changes() bool {
	return (c.Old == nil) != (c.New == nil) || !bytes.Equal(c.Old, c.New)
}

func (p *prepared) commit() error {
	if err := unchanged(p.Change); err != nil || !p.changes() {
		return err
	}
	if p.New == nil {
		return p.tree.Remove(p.name)
	}
	err := p.tree.Rename(p.tmp, p.name)
	if err == nil {
		p.tmp = ""
	}
	return err
}

// close removes what was not renamed.
func (p *prepared) close() (err error) {
	if p.tmp != "" {
		err = ignoreNotExist(p.tree.root.Remove(p.tmp))
	}
	return errors.Join(err, p.tree.Close())
}
