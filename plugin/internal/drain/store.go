package drain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"quiesce/plugin/stage"
)

const (
	room      = "drain"
	stateFile = room + "/state.json"
	lastFile  = room + "/previous.json"
	maxState  = 64 << 20
)

// Store keeps the State below quiesce's directory.
type Store struct {
	dir  string
	tree *stage.Tree
}

// OpenStore opens dir, which is there.
func OpenStore(dir string) (*Store, error) {
	tree, err := stage.OpenTree(dir)
	if err != nil {
		return nil, fmt.Errorf("open drain's state: %w", err)
	}
	if err := tree.Mkdir(room, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("open drain's state: %w", err), tree.Close())
	}
	return &Store{dir: dir, tree: tree}, nil
}

// Close releases the directory.
func (s *Store) Close() error { return s.tree.Close() }

// Load reads the State; nil if there never was a drain.
func (s *Store) Load() (*State, error) {
	b, err := s.tree.Read(stateFile, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no drain is nothing
	}
	if err != nil {
		return nil, fmt.Errorf("read drain's state: %w", err)
	}
	var st State
	if err := json.Unmarshal(b, &st); err != nil {
		return nil, fmt.Errorf("read drain's state: %w", err)
	}
	if st.Schema != Schema {
		return nil, fmt.Errorf("read drain's state: its schema is %d, not %d", st.Schema, Schema)
	}
	return &st, nil
}

// Save makes the State durable.
func (s *Store) Save(st *State) error {
	b, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("write drain's state: %w", err)
	}
	return s.tree.WriteBytes(stateFile, append(b, '\n'), stage.Attr{Mode: 0o600})
}

// Rotate puts the State of an earlier drain aside.
func (s *Store) Rotate() error {
	err := s.tree.Rename(stateFile, lastFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Changed is when the State was written last; zero: never.
func (s *Store) Changed() time.Time {
	fi, err := os.Stat(filepath.Join(s.dir, stateFile))
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}

// ErrLocked says that another drain is at work.
var ErrLocked = errors.New("another drain is at work")

// Lock takes the State for one process, which ends with it, or returns ErrLocked at once.
func (s *Store) Lock() (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, room, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600) //nolint:forbidigo // an empty file in our own room
	if err != nil {
		return nil, fmt.Errorf("lock drain: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(ErrLocked, f.Close())
	}
	_ = s.tree.SweepTemp(room) // what a drain that died was writing: it is in nobody's way
	return f.Close, nil
}

// Boot names this boot: the kernel's id of it, and when PID 1 was started, because containers boot without a kernel.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	start := ""
	if b, err := os.ReadFile("/proc/1/stat"); err == nil { // field 22, proc_pid_stat(5)
		if fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(fields) > 19 {
			start = fields[19]
		}
	}
	return strings.TrimSpace(string(id)) + "/" + start
}
