package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupMounts lists the cgroup hierarchies of this machine, of version 1 and 2.
func cgroupMounts() ([]mountPoint, error) {
	all, err := mountPoints()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m mountPoint) bool { return m.fstype != "cgroup" && m.fstype != "cgroup2" }), nil
}

// cgroupDirs lists every existing cgroup of a node in every hierarchy, parents before children.
func cgroupDirs(id string) ([]string, error) {
	mounts, err := cgroupMounts()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, m := range mounts {
		err := filepath.WalkDir(filepath.Join(m.path, id), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENODEV):
				return nil
			case err != nil:
				return err
			case d.IsDir():
				dirs = append(dirs, path)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
	}
	return dirs, nil
}

// cgroupProcs lists the processes in dirs, as far as this pid namespace shows them.
func cgroupProcs(dirs []string) []int {
	var pids []int
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// killed reports whether a process has a SIGKILL that has not ended it.
func killed(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && (name == "SigPnd" || name == "ShdPnd") && mask&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// thaw lets the processes of frozen cgroups run, so that a SIGKILL reaches them: the freezer of version 1 holds it back.
func thaw(dirs []string) {
	for _, dir := range dirs {
		_ = writeExisting(filepath.Join(dir, "freezer.state"), "THAWED")
		_ = writeExisting(filepath.Join(dir, "cgroup.freeze"), "0")
	}
}

// writeExisting writes to a control file without ever creating it.
func writeExisting(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// killCgroups kills every process of a node and removes its cgroups.
func killCgroups(ctx context.Context, id string) error {
	err := poll(ctx, 20*time.Millisecond, func() (bool, error) {
		dirs, err := cgroupDirs(id)
		if err != nil || len(dirs) == 0 {
			return true, err
		}
		for _, pid := range cgroupProcs(dirs) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		thaw(dirs)
		for _, dir := range slices.Backward(dirs) {
			_ = unix.Rmdir(dir)
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("empty cgroups of %s: %w", id, err)
	}
	return nil
}

// cgroupFiles lists the cgroup.procs files of the cgroups that the process pid is in.
func cgroupFiles(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("read cgroups: %w", err)
	}
	mounts, err := cgroupMounts()
	if err != nil {
		return nil, err
	}
	var files []string
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, m := range mounts {
			if m.controls(parts[1]) {
				rel := strings.TrimPrefix(parts[2], strings.TrimSuffix(m.root, "/"))
				files = append(files, filepath.Join(m.path, rel, "cgroup.procs"))
				break
			}
		}
	}
	return files, nil
}

// controls reports whether m is the hierarchy of a controller list as /proc/PID/cgroup writes it.
func (m mountPoint) controls(list string) bool {
	if list == "" {
		return m.fstype == "cgroup2"
	}
	first, _, _ := strings.Cut(list, ",")
	return m.fstype == "cgroup" && slices.Contains(strings.Split(m.super, ","), first)
}
