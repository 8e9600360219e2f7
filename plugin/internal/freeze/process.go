package freeze

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process that cannot be mistaken for a later one with its PID.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // field 22 of /proc/PID/stat: clock ticks since boot
}

// Self is the calling process.
func Self() Process { p, _ := processOf(os.Getpid()); return p }

// processOf identifies a live process; a corpse is none.
func processOf(pid int) (p Process, live bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, false
	}
	s := string(b) // proc_pid_stat(5); the name, in brackets, may hold anything
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return Process{}, false
	}
	return Process{PID: pid, Start: fields[19]}, true
}

// Lives tells whether the process has not ended.
func (p Process) Lives() bool {
	now, live := processOf(p.PID)
	return live && now == p
}

// forbidden says why a process must not be frozen, or nothing.
func forbidden(pid int) (string, error) {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return "", nil // it has ended
	}
	if err != nil {
		return "", fmt.Errorf("read program of process %d: %w", pid, err)
	}
	name := filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
	switch {
	case strings.HasPrefix(name, "containerd-shim"):
		return "its cgroup holds a shim, " + name, nil
	case name == "containerd" || name == "kubelet" || name == "quiesce":
		return "its cgroup holds " + name, nil
	case strings.HasPrefix(name, "qemu-") || name == "cloud-hypervisor" || name == "firecracker" || name == "runsc":
		return "its cgroup holds a virtual machine, " + name, nil
	}
	return "", nil
}

// bootID names this boot (random(4)).
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// uptime is a clock that nobody sets and that goes on in suspend.
func uptime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

func numbers(text string) (ns []int, err error) {
	for f := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("read process list: %w", err)
		}
		ns = append(ns, n)
	}
	return ns, nil
}
