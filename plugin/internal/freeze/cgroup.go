package freeze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is an open cgroup directory: whatever takes its name later, this one is written to.
type cgroup struct {
	place
	Inode uint64
	files files
}

// files are the control files of one cgroup.
type files interface {
	read(name string) (string, error)
	write(name, text string) error
	io.Closer
}

func openCgroup(at place) (*cgroup, error) {
	root, err := os.OpenRoot(at.Path)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	fi, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open cgroup: %w", err), root.Close())
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.Join(errors.New("open cgroup: no inode number"), root.Close())
	}
	return &cgroup{place: at, Inode: st.Ino, files: rootFiles{root}}, nil
}

type rootFiles struct{ *os.Root }

func (r rootFiles) read(name string) (string, error) {
	b, err := r.ReadFile(name)
	return strings.TrimSpace(string(b)), err
}

// write never creates: a cgroup has the files it has.
func (r rootFiles) write(name, text string) error {
	f, err := r.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// processes lists all PIDs in the cgroup and below.
func (c *cgroup) processes() ([]int, error) {
	r, ok := c.files.(rootFiles)
	if !ok {
		return nil, errors.New("list processes: not a directory")
	}
	var pids []int
	err := fs.WalkDir(r.FS(), ".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		text, err := r.read(dir + "/cgroup.procs")
		if err != nil {
			return err
		}
		more, err := numbers(text)
		pids = append(pids, more...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list processes of cgroup: %w", err)
	}
	return pids, nil
}

// The states of a freezer.
const (
	thawed   = "THAWED"
	freezing = "FREEZING"
	frozen   = "FROZEN"
)

// state is the state of the freezer, whoever set it here or above (kernel cgroup-v1/freezer-subsystem.rst, cgroup-v2.rst).
func (c *cgroup) state() (string, error) {
	if c.Version == 1 {
		s, err := c.files.read("freezer.state")
		if err != nil {
			return "", fmt.Errorf("read freezer: %w", err)
		}
		return s, nil
	}
	events, err := c.files.read("cgroup.events")
	if err != nil {
		return "", fmt.Errorf("read freezer: %w", err)
	}
	self, err := c.files.read("cgroup.freeze")
	switch {
	case err != nil:
		return "", fmt.Errorf("read freezer: %w", err)
	case strings.Contains(events, "frozen 1"):
		return frozen, nil
	case self == "1":
		return freezing, nil
	}
	return thawed, nil
}

// begin asks the kernel to freeze.
func (c *cgroup) begin() error {
	name, text := "cgroup.freeze", "1"
	if c.Version == 1 {
		name, text = "freezer.state", frozen
	}
	if err := c.files.write(name, text); err != nil {
		return fmt.Errorf("freeze cgroup: %w", err)
	}
	return nil
}

// freezeEvery is how often a cgroup is looked at that is freezing.
const freezeEvery = 2 * time.Millisecond

// errFreezing says that a cgroup did not freeze in time: a process in it is in the kernel and does not come back.
var errFreezing = errors.New("it stays in the state FREEZING")

// await waits until all processes are frozen. Version 1 may stop halfway and is asked again each time.
func (c *cgroup) await(ctx context.Context) error {
	tick := time.NewTicker(freezeEvery)
	defer tick.Stop()
	for {
		s, err := c.state()
		if err != nil || s == frozen {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("freeze cgroup: %w", errFreezing)
		}
		if c.Version == 1 {
			if err := c.begin(); err != nil {
				return err
			}
		}
	}
}

// thaw lets the processes run; was tells whether they did not.
func (c *cgroup) thaw() (was bool, err error) {
	s, err := c.state()
	if err == nil && s != thawed {
		was = true
	}
	name, text := "cgroup.freeze", "0"
	if c.Version == 1 {
		name, text = "freezer.state", thawed
	}
	if err := c.files.write(name, text); err != nil && !gone(err) {
		return was, fmt.Errorf("thaw cgroup: %w", err)
	}
	return was, nil
}

// gone tells whether an error says that the cgroup was removed.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
