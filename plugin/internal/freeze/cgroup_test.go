package freeze

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// controls are control files of a kernel that has its own mind.
type controls struct {
	files  map[string]string
	writes []string
	wrote  func(c *controls, name, text string)
}

func (c *controls) read(name string) (string, error) {
	s, ok := c.files[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return s, nil
}

func (c *controls) write(name, text string) error {
	if _, ok := c.files[name]; !ok {
		return fs.ErrNotExist
	}
	c.writes = append(c.writes, name+"="+text)
	if c.wrote != nil {
		c.wrote(c, name, text)
	}
	return nil
}

func (c *controls) Close() error { return nil }

func TestAwaitVersion1AsksAgain(t *testing.T) {
	c := &controls{files: map[string]string{"freezer.state": thawed}}
	c.wrote = func(c *controls, name, _ string) {
		c.files[name] = freezing
		if len(c.writes) == 4 {
			c.files[name] = frozen
		}
	}
	g := &cgroup{place: place{Version: 1}, files: c}
	if err := errors.Join(g.begin(), g.await(t.Context())); err != nil || len(c.writes) != 4 {
		t.Errorf("%v after %q", err, c.writes)
	}
}

func TestAwaitGivesUp(t *testing.T) {
	for version, c := range map[int]*controls{
		1: {files: map[string]string{"freezer.state": freezing}},
		2: {files: map[string]string{"cgroup.freeze": "1", "cgroup.events": "populated 1\nfrozen 0"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		g := &cgroup{place: place{Version: version}, files: c}
		if err := g.await(ctx); !errors.Is(err, errFreezing) {
			t.Errorf("version %d: %v", version, err)
		}
		cancel()
	}
}

// TestVersion2 freezes a real process in the unified hierarchy of this machine.
func TestVersion2(t *testing.T) {
	dir := version2(t)
	p := sleeper(t, dir)
	g, err := openCgroup(place{Path: dir, Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer g.files.Close()
	for range 3 {
		if s, err := g.state(); err != nil || s != thawed {
			t.Fatalf("state %q, %v", s, err)
		}
		if err := errors.Join(g.begin(), g.await(t.Context())); err != nil {
			t.Fatal(err)
		}
		if was, err := g.thaw(); !was || err != nil {
			t.Fatalf("thawed: %v, %v", was, err)
		}
	}
	if pids, err := g.processes(); err != nil || len(pids) != 1 || pids[0] != p {
		t.Errorf("processes %v, %v; want %d", pids, err, p)
	}
}

// version2 makes a cgroup of version 2.
func version2(t *testing.T) string {
	t.Helper()
	return newCgroup(t, 2, "cgroup.freeze")
}

// newCgroup makes one on this machine. A hierarchy of version 2 that is not mounted is mounted for the test.
func newCgroup(t *testing.T, version int, file string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("only root can freeze processes; run it with sudo")
	}
	points := mounted(t, version)
	if len(points) == 0 && version == 2 {
		points = []hierarchy{{point: mount2(t)}}
	}
	if len(points) == 0 {
		t.Fatalf("no hierarchy of version %d is mounted", version)
	}
	dir, err := os.MkdirTemp(points[0].point, "quiesce-freeze-test-")
	if err != nil {
		t.Fatal("the hierarchy cannot be written to: ", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		t.Fatalf("this kernel has no %s (Linux 5.2 has, in version 2): %v", file, err)
	}
	return dir
}

// mount2 mounts the hierarchy of version 2, which the kernel has whether somebody uses it or not.
func mount2(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "cgroup2", 0, ""); err != nil {
		t.Fatal("mount the hierarchy of version 2: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func mounted(t *testing.T, version int) []hierarchy {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return hierarchies(string(mounts), version)
}

// container makes a cgroup where locate will look for one.
func container(t *testing.T) string {
	t.Helper()
	if len(mounted(t, 1)) > 0 {
		return newCgroup(t, 1, "freezer.state")
	}
	return version2(t)
}

// sleeper runs a process in the cgroup.
func sleeper(t *testing.T, dir string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = os.WriteFile(dir+"/freezer.state", []byte(thawed), 0o644) // what is frozen in version 1 does not die
		_ = cmd.Wait()
	})
	if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
