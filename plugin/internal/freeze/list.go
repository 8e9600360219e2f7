package freeze

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"quiesce/plugin/stage"
)

// listName is the file below the store that says what may be frozen.
const listName = "freeze.json"

// list is what one window may have frozen.
type list struct {
	Window  string        `json:"window"`
	Boot    string        `json:"boot"`
	Owner   Process       `json:"owner"`    // who thaws it
	Until   time.Duration `json:"until_ns"` // uptime at which the limit is over
	Cgroups []member      `json:"cgroups"`
}

// member is one container on the list.
type member struct {
	place
	Inode     uint64  `json:"inode"`
	Container string  `json:"container"` // id
	Name      string  `json:"name"`      // for people
	Init      Process `json:"init"`
}

// Listed tells whether dir has a list: containers are frozen, or somebody has not thawed them.
func Listed(dir string) bool {
	t, err := stage.OpenTree(dir)
	if err != nil {
		return false
	}
	defer func() { _ = t.Close() }() // nothing is written through it
	l, err := readList(t)
	return l != nil || err != nil
}

// readList gives nil where there is no list.
func readList(t *stage.Tree) (*list, error) {
	b, err := t.Read(listName, stage.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no list is the usual case
	}
	if err != nil {
		return nil, err
	}
	var l list
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, fmt.Errorf("read %s: %w", t.Path(listName), err)
	}
	return &l, nil
}

func (l *list) write(t *stage.Tree) error {
	b, err := json.MarshalIndent(l, "", " ")
	if err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	return t.WriteBytes(listName, append(b, '\n'), stage.Attr{Mode: 0o600})
}

// thaw thaws everything on the list that is still there, and says how many were frozen.
func (l *list) thaw() (count int, errs error) {
	boot, err := bootID()
	if err == nil && boot != l.Boot {
		return 0, nil // nothing of another boot is left
	}
	for _, m := range l.Cgroups {
		was, err := m.thaw()
		if was {
			count++
		}
		errs = errors.Join(errs, err)
	}
	return count, errs
}

func (m *member) thaw() (was bool, err error) {
	c, err := openCgroup(m.place)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("thaw %s: %w", m.Name, err)
	}
	defer c.files.Close()
	if c.Inode != m.Inode {
		return false, nil // another cgroup has its name
	}
	if was, err = c.thaw(); err != nil {
		return was, fmt.Errorf("thaw %s: %w", m.Name, err)
	}
	return was, nil
}
