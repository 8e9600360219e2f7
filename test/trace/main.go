//go:build linux && amd64

// Command trace runs a program and, at one of its system calls, lets that fail or kills the program: trace DIR PROGRAM ARG…
// reads DIR/call, takes it away, and leaves in DIR/calls how many calls there were of each kind and which number the chosen one had, or -1:
//
//	N KIND error   the Nth call of a kind fails with EIO, and is not made; one that sends, with EPIPE, and its connection is shut down
//	N KIND kill    the program is killed just before it
//
// The kinds are change, calls that change files or say something to somebody; more, writes to a file after the first; read,
// the first of those that read at each place in the program, for each way to it; and other, the rest, lines of the log among
// them. Counted are the calls of all its threads, but for those of Go's scheduler and of memory; not those of other programs
// that it runs. Without DIR/call the program is run as it is.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: trace DIR PROGRAM ARG…")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
		os.Exit(125)
	}
	os.Exit(code)
}

func run(dir string, argv []string) (int, error) {
	file := filepath.Join(dir, "call")
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, syscall.Exec(argv[0], argv, os.Environ())
	}
	t := tracer{chosen: -1, count: map[string]int{}, written: map[uint64]bool{}, seen: map[uint64]bool{}}
	if _, serr := fmt.Sscan(string(text), &t.at, &t.kind, &t.action); errors.Join(err, serr) != nil {
		return 0, fmt.Errorf("read %s: %w", file, errors.Join(err, serr))
	}
	if err := os.Remove(file); err != nil {
		return 0, err
	}
	code, err := t.trace(argv)
	return code, errors.Join(err, os.WriteFile(filepath.Join(dir, "calls"), fmt.Appendf(nil, "%d %d %d %d %d\n", t.count["change"], t.count["more"], t.count["read"], t.count["other"], t.chosen), 0o600))
}

// tracer counts system calls.
type tracer struct {
	at           int
	kind, action string

	pid     int
	count   map[string]int  // by kind
	written map[uint64]bool // descriptors of files that something was written to
	seen    map[uint64]bool // hashes of the stacks that something was read from
	chosen  int             // the number of the call at which it acted; -1: it did not
	fails   int             // the thread whose call is to fail at its end; 0: none
	saved   syscall.PtraceRegs
	broken  bool // with fails: its connection was shut down
}

// unseen are the calls that say nothing of what the program does.
func unseen(nr uint64) bool {
	switch nr {
	case unix.SYS_FUTEX, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_WAIT, unix.SYS_NANOSLEEP, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE,
		unix.SYS_MPROTECT, unix.SYS_SCHED_YIELD, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
		unix.SYS_GETTID, unix.SYS_TGKILL, unix.SYS_GETPID, unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_ARCH_PRCTL,
		unix.SYS_PRCTL, unix.SYS_SCHED_GETAFFINITY, unix.SYS_RESTART_SYSCALL, unix.SYS_EXECVE, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME,
		unix.SYS_TIMER_DELETE, unix.SYS_SETITIMER, unix.SYS_WAITID, unix.SYS_PIPE2:
		return true
	}
	return false
}

// changes tells whether a call changes files, or says something to somebody.
func changes(c callInfo) bool {
	switch c.nr {
	case unix.SYS_OPENAT:
		return c.args[2]&(unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT) != 0
	case unix.SYS_FCNTL: // most ask what a descriptor is
		return slices.Contains([]uint64{unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_SETLK, unix.F_OFD_SETLKW}, c.args[1])
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT,
		unix.SYS_UNLINKAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_FTRUNCATE,
		unix.SYS_FSETXATTR, unix.SYS_SETXATTR, unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_FLOCK,
		unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_SENDMSG, unix.SYS_SENDTO, unix.SYS_PIDFD_OPEN:
		return true
	}
	return false
}

// reads tells whether a call reads of files, or what somebody says.
func reads(nr uint64) bool {
	switch nr {
	case unix.SYS_OPENAT, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_GETDENTS64, unix.SYS_READLINKAT, unix.SYS_NEWFSTATAT, unix.SYS_FSTAT,
		unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR,
		unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR, unix.SYS_IOCTL, unix.SYS_RECVMSG, unix.SYS_RECVFROM:
		return true
	}
	return false
}

// trace runs the program to its end.
func (t *tracer) trace(argv []string) (int, error) {
	runtime.LockOSThread() // the kernel's tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	t.pid = cmd.Process.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(t.pid, &ws, syscall.WALL, nil); err != nil { // it stops at its exec
		return 0, err
	}
	const options = syscall.PTRACE_O_TRACESYSGOOD | syscall.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := errors.Join(syscall.PtraceSetOptions(t.pid, options), syscall.PtraceSyscall(t.pid, 0)); err != nil {
		return 0, err
	}
	for {
		tid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case tid == t.pid && ws.Exited():
			return ws.ExitStatus(), nil
		case tid == t.pid && ws.Signaled():
			return 128 + int(ws.Signal()), nil
		case ws.Stopped():
			_ = syscall.PtraceSyscall(tid, t.stopped(tid, ws)) // it may be dead
		}
	}
}

// stopped handles a stop of a thread and tells the signal that it is to get.
func (t *tracer) stopped(tid int, ws syscall.WaitStatus) int {
	sig := ws.StopSignal()
	switch int(sig) {
	case int(syscall.SIGTRAP) | 0x80:
		t.call(tid)
		return 0
	case int(syscall.SIGTRAP), int(syscall.SIGSTOP): // of the kernel, for the tracer
		return 0
	default:
		return int(sig)
	}
}

// callInfo is struct ptrace_syscall_info, linux/ptrace.h, at the entry of a call.
type callInfo struct {
	op   uint8
	_    [3]uint8
	_    uint32
	_, _ uint64
	nr   uint64
	args [6]uint64
	_    uint64
}

const (
	getCallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO
	entry       = 1      // PTRACE_SYSCALL_INFO_ENTRY
)

// call is the begin or the end of a system call.
func (t *tracer) call(tid int) {
	var info callInfo
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, getCallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 {
		return
	}
	if info.op != entry {
		if t.fails == tid {
			t.fails = 0
			t.set(tid, func(r *syscall.PtraceRegs) {
				if r.Rax = ^uint64(syscall.EIO) + 1; t.broken {
					r.Rax, r.Rdi, r.Rsi = ^uint64(syscall.EPIPE)+1, t.saved.Rdi, t.saved.Rsi
				}
			})
		}
		return
	}
	if unseen(info.nr) {
		return
	}
	kind := t.kindOf(info)
	if kind == "other" && reads(info.nr) && t.fresh(tid, info.nr) {
		kind = "read"
	}
	if t.count[kind]++; kind != t.kind || t.count[kind] != t.at {
		return
	}
	t.chosen = int(info.nr)
	if t.action == "kill" {
		_ = syscall.Kill(t.pid, syscall.SIGKILL)
		return
	}
	t.fails, t.broken = tid, t.says(info)
	t.set(tid, func(r *syscall.PtraceRegs) {
		if t.saved = *r; t.broken {
			r.Orig_rax, r.Rsi = unix.SYS_SHUTDOWN, unix.SHUT_RDWR
			return
		}
		r.Orig_rax = ^uint64(0)
	})
}

// says tells whether a call sends something over a connection. It fails as it does when the other side has gone.
func (t *tracer) says(c callInfo) bool {
	if c.nr != unix.SYS_WRITE && c.nr != unix.SYS_SENDMSG && c.nr != unix.SYS_SENDTO {
		return false
	}
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, c.args[0]))
	return err == nil && strings.HasPrefix(to, "socket:")
}

// kindOf tells what a call does. A write to an event's descriptor wakes a thread, and says nothing.
func (t *tracer) kindOf(c callInfo) string {
	fd := c.args[0]
	switch c.nr {
	case unix.SYS_CLOSE:
		delete(t.written, fd)
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE:
		if c.nr == unix.SYS_COPY_FILE_RANGE {
			fd = c.args[2]
		}
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd))
		switch {
		case err != nil || fd == uint64(syscall.Stderr) || strings.HasPrefix(to, "anon_inode:"):
			return "other"
		case strings.HasPrefix(to, "/") && t.written[fd]:
			return "more"
		}
		t.written[fd] = true
	}
	if changes(c) {
		return "change"
	}
	return "other"
}

// deepest is how many frames of a stack are looked at.
const deepest = 64

// fresh tells whether no such call was made before from where the thread is: by the frame pointers that Go keeps, so each place in
// the program counts once for each way to it.
func (t *tracer) fresh(tid int, nr uint64) bool {
	var r syscall.PtraceRegs
	if syscall.PtraceGetRegs(tid, &r) != nil {
		return false
	}
	sum := fnv.New64a()
	_ = binary.Write(sum, binary.NativeEndian, nr)
	for at, depth := uintptr(r.Rbp), 0; at != 0 && depth < deepest; depth++ {
		var frame [16]byte // the frame before, and where it goes on
		local := []unix.Iovec{{Base: &frame[0], Len: uint64(len(frame))}}
		if n, err := unix.ProcessVMReadv(t.pid, local, []unix.RemoteIovec{{Base: at, Len: len(frame)}}, 0); err != nil || n != len(frame) {
			break
		}
		_, _ = sum.Write(frame[8:])
		next := uintptr(binary.NativeEndian.Uint64(frame[:8]))
		if next <= at {
			break
		}
		at = next
	}
	key := sum.Sum64()
	known := t.seen[key]
	t.seen[key] = true
	return !known
}

func (t *tracer) set(tid int, f func(*syscall.PtraceRegs)) {
	var r syscall.PtraceRegs
	if syscall.PtraceGetRegs(tid, &r) == nil {
		f(&r)
		_ = syscall.PtraceSetRegs(tid, &r) // it may be dead
	}
}
