package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ExitError is a program of a node that ended with a code other than 0.
type ExitError struct {
	Argv   []string
	Code   int
	Stderr string
}

// Error names the program, the code and the end of what it printed to stderr.
func (e *ExitError) Error() string {
	return fmt.Sprintf("%s: exit code %d: %s", strings.Join(e.Argv, " "), e.Code, tail(e.Stderr, 10))
}

// Exec runs a program in the node and returns what it printed to stdout.
func (n *Node) Exec(ctx context.Context, argv ...string) (string, error) {
	cmd, err := n.Command(ctx, argv...)
	if err != nil {
		return "", err
	}
	// Files in memory, not pipes: what the program left running would keep a pipe open.
	stdout, err := memory("stdout")
	if err != nil {
		return "", err
	}
	defer stdout.Close()
	stderr, err := memory("stderr")
	if err != nil {
		return "", err
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	out := written(stdout)
	var exit *exec.ExitError
	switch {
	case err != nil && ctx.Err() != nil:
		return out, fmt.Errorf("run %s: %w", argv[0], context.Cause(ctx))
	case errors.As(err, &exit):
		return out, &ExitError{Argv: argv, Code: exit.ExitCode(), Stderr: written(stderr)}
	case err != nil:
		return out, fmt.Errorf("run %s: %w", argv[0], err)
	}
	return out, nil
}

func memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// written is all that a program has written to a file in memory.
func written(f *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// joinScript moves itself into the cgroups named before "--", then becomes the command after it.
const joinScript = `while [ "$1" != -- ]; do echo 0 >"$1" || exit 125; shift; done; shift; exec "$@"`

// Command is a program in all of the node's namespaces and in the cgroups of its init, so that it ends with the node.
// The caller sets its standard streams and runs it.
func (n *Node) Command(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	p := n.current()
	if p == nil {
		return nil, fmt.Errorf("run %s: node %s is off", argv[0], n.ID)
	}
	files, err := cgroupFiles(p.pid)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", argv[0], err)
	}
	args := append([]string{"-c", joinScript, "sh"}, files...)
	args = append(args, "--", "nsenter", "--target", strconv.Itoa(p.pid),
		"--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--")
	cmd := exec.CommandContext(ctx, "/bin/sh", append(args, argv...)...)
	cmd.Env = nodeEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}

// nodeEnv is the environment of programs in a node.
func nodeEnv() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "LANG=C.UTF-8", "TERM=dumb", "SYSTEMD_PAGER=",
	}
}

// Journal is the node's whole journal, also while it is off.
func (n *Node) Journal(ctx context.Context) (string, error) {
	var out bytes.Buffer
	cmd := n.chroot(ctx, "journalctl", "--directory=/var/log/journal", "--no-pager", "--output=short-precise")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("read journal of %s: %w\n%s", n.ID, err, tail(out.String(), 3))
	}
	return out.String(), nil
}

// journal is the journal, or why there is none.
func (n *Node) journal(ctx context.Context) string {
	text, err := n.Journal(ctx)
	if err != nil {
		return err.Error()
	}
	return text
}
