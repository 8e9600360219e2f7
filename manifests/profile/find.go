package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Found is the containerd that the kubelet uses, and why it is taken for that. What could not be found is empty.
type Found struct {
	Profile string   `json:"profile"`
	Socket  string   `json:"socket"`
	Unit    string   `json:"unit,omitempty"`
	PID     int      `json:"pid,omitempty"`
	Program string   `json:"program,omitempty"` // that runs
	Args    []string `json:"-"`
	Config  string   `json:"config"`
	Fixed   bool     `json:"-"`   // whatever a command line says, Config is the file
	Why     []string `json:"why"` // one line for each of them
}

// Peer is the process behind a unix socket.
type Peer func(socket string) (pid int, err error)

// Find finds the containerd of a running node. root has its files, /proc among them. What nothing tells is as in the profile.
func Find(root fs.FS, p Profile, peer Peer) Found {
	f := Found{Profile: p.Name, Socket: p.Socket, Config: p.Config, Unit: p.Unit(root), Fixed: p.CopyFrom != ""}
	f.because("profile %s: %s", p.Name, p.Why)
	socket, from := Endpoint(root, true)
	switch {
	case p.Asked:
		f.because("socket %s: the settings say so", f.Socket)
	case socket != "":
		f.Socket = socket
		f.because("socket %s: /%s says so", socket, from)
	default:
		f.because("socket %s: no kubelet says one, it is the profile's", f.Socket)
	}
	pid, err := peer(f.Socket)
	if err != nil {
		f.because("unit %s: the profile's, for no process is behind the socket: %v", f.Unit, err)
		return f
	}
	f.PID = pid
	f.process(root)
	return f
}

func (f *Found) because(format string, a ...any) { f.Why = append(f.Why, fmt.Sprintf(format, a...)) }

// process fills in what /proc tells.
func (f *Found) process(root fs.FS) {
	dir := fmt.Sprintf("proc/%d", f.PID)
	if cgroup, err := fs.ReadFile(root, path.Join(dir, "cgroup")); err == nil {
		if unit := unitOf(string(cgroup)); unit != "" {
			f.Unit = unit
			f.because("unit %s: process %d, behind the socket, is in its cgroup", unit, f.PID)
		}
	}
	cmdline, err := fs.ReadFile(root, path.Join(dir, "cmdline"))
	if err != nil {
		return
	}
	f.Args = strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	if exe, err := fs.ReadLink(root, path.Join(dir, "exe")); err == nil {
		f.Program = program(root, exe, f.Args[0])
		if strings.HasSuffix(exe, deleted) {
			f.because("program %s: process %d runs what was there before an update; the next start runs what is there now", f.Program, f.PID)
		} else {
			f.because("program %s: process %d runs it", f.Program, f.PID)
		}
	}
	switch config := ConfigArg(f.Args); {
	case f.Fixed:
		f.because("config %s: the unit is told to use it", f.Config)
	case config != "":
		f.Config = config
		f.because("config %s: the command line of process %d says so", config, f.PID)
	default:
		f.because("config %s: the command line of process %d names none", f.Config, f.PID)
	}
}

// deleted is what the kernel adds to the name of a file that is no longer there, or another one (proc_pid_exe(5)).
const deleted = " (deleted)"

// program is how a process's program is called. One file may be several programs, by the name they are called by (k3s).
func program(root fs.FS, exe, argv0 string) string {
	exe = strings.TrimSuffix(exe, deleted)
	if name := path.Join(path.Dir(exe), path.Base(argv0)); name != exe {
		if _, err := fs.Stat(root, strings.TrimPrefix(name, "/")); err == nil {
			return name
		}
	}
	return exe
}

// ConfigArg is the config file that containerd's command line names (containerd cmd/containerd/command/main.go).
func ConfigArg(argv []string) string {
	for i, a := range argv {
		for _, flag := range []string{"--config", "-config", "-c"} {
			if v, ok := strings.CutPrefix(a, flag+"="); ok {
				return v
			}
			if a == flag && i+1 < len(argv) {
				return argv[i+1]
			}
		}
	}
	return ""
}

// unitOf reads /proc/PID/cgroup: the innermost service of systemd's own hierarchy (systemd docs/CGROUP_DELEGATION.md).
func unitOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "name=systemd" && parts[0] != "0" {
			continue
		}
		for _, name := range slices.Backward(strings.Split(parts[2], "/")) {
			if strings.HasSuffix(name, ".service") {
				return name
			}
		}
	}
	return ""
}

// Behind is a Peer that asks the kernel who listens.
func Behind(socket string) (pid int, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, fmt.Errorf("find process behind socket: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("find process behind %s: %w", socket, err)
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(cerr, err); err != nil {
		return 0, fmt.Errorf("find process behind %s: %w", socket, err)
	}
	if cred.Pid == 0 {
		return 0, fmt.Errorf("find process behind %s: it is not in this process namespace", socket)
	}
	return int(cred.Pid), nil
}
