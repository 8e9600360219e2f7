package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"quiesce/plugin/internal/drain"
)

// Start is field 22 of /proc/PID/stat, proc_pid_stat(5): the start time in clock ticks since boot. It is empty if there
// is no such process, or only its corpse.
func Start(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// alive tells whether the noted process is there.
func alive(r drain.Reach) bool { return r.PID > 0 && r.Start != "" && Start(r.PID) == r.Start }

// idLen is the least length of a container's id; the runtimes' have 64 digits.
const idLen = 32

// cgroup finds the directory of the container's cgroup that a process is in.
func cgroup(pid int, id string) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", fmt.Errorf("read cgroup: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if len(id) < idLen {
			break // too short to be found by
		}
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !strings.Contains(parts[2], id) {
			continue
		}
		for _, ctrl := range append(strings.Split(parts[1], ","), "unified", "") {
			dir := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(ctrl, "name="), parts[2])
			if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
				return dir, nil
			}
		}
	}
	return "", errors.New("read cgroup: the process is not in the container's")
}

// signal sends sig to the noted process of container id, and to nothing else.
func signal(id string, r drain.Reach, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process: %w", err)
	}
	defer unix.Close(fd)
	if !alive(r) {
		return nil
	}
	if _, err := cgroup(r.PID, id); err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process: %w", err)
	}
	return nil
}

// kill ends everything in the container's cgroup.
func kill(id string, r drain.Reach) error {
	dir, err := cgroup(r.PID, id)
	if err != nil {
		if alive(r) {
			return err
		}
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("read cgroup: %w", err)
	}
	var errs error
	for field := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			errs = errors.Join(errs, signal(id, drain.Reach{PID: pid, Start: Start(pid)}, unix.SIGKILL))
		}
	}
	return errs
}

// Ended waits until the noted process has ended; false if ctx ends before.
func Ended(ctx context.Context, r drain.Reach) bool {
	fd, err := unix.PidfdOpen(r.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return polled(ctx, r) // it has ended, or Linux is older than 5.10
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return polled(ctx, r)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })
	defer stop()
	err = conn.Read(func(fd uintptr) bool { // a pidfd can be read from when its process has ended
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) //nolint:gosec // a descriptor
		return n > 0 || err != nil || !alive(r)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return polled(ctx, r)
}

func polled(ctx context.Context, r drain.Reach) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for alive(r) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// stopSignal reads a name such as SIGTERM or TERM, or a number; what cannot be read is SIGTERM.
func stopSignal(name string) unix.Signal {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n < 65 {
		return unix.Signal(n)
	}
	name = "SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if rt, ok := strings.CutPrefix(name, "SIGRTMIN"); ok {
		if n, err := strconv.Atoi("0" + strings.TrimPrefix(rt, "+")); err == nil && n <= 30 {
			return unix.Signal(34 + n)
		}
	}
	if s := unix.SignalNum(name); s != 0 {
		return s
	}
	return unix.SIGTERM
}
