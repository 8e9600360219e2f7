package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// bootBudget is the longest that a node may take from power-on until CRI answers.
const bootBudget = 2 * time.Minute

// Node is a machine. Its methods may be called from several goroutines, but not two that switch it on or off.
type Node struct {
	// ID names the node: container, cgroup, host name.
	ID string

	kit *Kit
	cfg Config
	dir string

	mu     sync.Mutex
	init   *process         // nil while the node is off
	conn   *grpc.ClientConn // made at the first use
	closed bool
}

// process is the node's init as seen from outside.
type process struct{ pid, fd int }

// Boot makes a new node and starts it. It returns when systemd has finished booting and CRI is ready;
// on an error nothing of the node is left.
func Boot(ctx context.Context, cfg Config) (*Node, error) {
	kit := cfg.Kit
	if kit == nil {
		var err error
		if kit, err = Prepare(ctx, cfg.version()); err != nil {
			return nil, err
		}
	}
	n := &Node{ID: newID(cfg.Name), kit: kit, cfg: cfg}
	var err error
	if n.dir, err = kit.claim(ctx, n.ID); err != nil {
		return nil, fmt.Errorf("boot node: %w", err)
	}
	err = n.buildDisk(ctx)
	if err == nil {
		err = n.writeBundle()
	}
	if err == nil {
		err = n.Start(ctx)
	}
	if err == nil {
		err = n.importImages(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("boot node %s: %w", n.ID, err), n.Close())
	}
	return n, nil
}

// newID is a fresh node id; container, cgroup and host names allow these letters.
func newID(name string) string {
	if name == "" {
		name = "node"
	}
	return "quiesce-" + name + "-" + strings.ToLower(rand.Text()[:8])
}

// Start switches the node on and waits until systemd has finished booting and CRI is ready.
func (n *Node) Start(ctx context.Context) error {
	if n.current() != nil {
		return fmt.Errorf("start node %s: it is on", n.ID)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootBudget, fmt.Errorf("not up within %v", bootBudget))
	defer cancel()
	if err := n.powerOn(ctx); err != nil {
		return fmt.Errorf("start node %s: %w", n.ID, err)
	}
	err := n.waitSystemd(ctx)
	if err == nil {
		err = n.WaitCRI(ctx)
	}
	if err != nil {
		return fmt.Errorf("start node %s: %w\n%s", n.ID, err, tail(n.journal(context.WithoutCancel(ctx)), 30))
	}
	return nil
}

// powerOn runs systemd in a fresh container.
func (n *Node) powerOn(ctx context.Context) error {
	console, err := os.OpenFile(filepath.Join(n.dir, "console.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open console: %w", err)
	}
	defer func() { _ = console.Close() }()
	state, pidFile := filepath.Join(n.dir, "runc"), filepath.Join(n.dir, "init.pid")
	if err := os.RemoveAll(state); err != nil {
		return fmt.Errorf("clear runc's state: %w", err)
	}
	cmd := exec.CommandContext(ctx, "runc", "--root", state, "run", "--detach", "--bundle", n.dir, "--pid-file", pidFile, n.ID)
	cmd.Stdout, cmd.Stderr = console, console
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(console.Name())
		return fmt.Errorf("run container: %w\n%s", err, tail(string(text), 10))
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return fmt.Errorf("read pid of init: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("read pid of init: %w", err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open init: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.init = &process{pid: pid, fd: fd}
	return nil
}

// current is the init process, nil while the node is off.
func (n *Node) current() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.init
}

// Running reports whether the node's init process lives.
func (n *Node) Running() bool {
	p := n.current()
	return p != nil && !p.ended()
}

// ended reports whether the process, and with an init everything in its pid namespace, is gone.
func (p *process) ended() bool {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	count, err := unix.Poll(fds, 0)
	return err == nil && count == 1
}

// waitSystemd returns when systemd is done with booting and no unit has failed.
func (n *Node) waitSystemd(ctx context.Context) error {
	err := poll(ctx, 20*time.Millisecond, func() (bool, error) {
		if !n.Running() {
			return false, errors.New("init has ended")
		}
		_, err := os.Stat(n.Path("/run/systemd/private"))
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for systemd: %w", err)
	}
	state, err := n.Exec(ctx, "systemctl", "is-system-running", "--wait")
	if state = strings.TrimSpace(state); state == "running" {
		return nil
	}
	if state != "degraded" {
		return fmt.Errorf("wait for systemd: it is %q: %w", state, err)
	}
	return n.checkFailed(ctx)
}

// checkFailed returns an error that lists the failed units, unless all of them may fail.
func (n *Node) checkFailed(ctx context.Context) error {
	list, err := n.Exec(ctx, "systemctl", "list-units", "--failed", "--plain", "--no-legend", "--output=json")
	if err != nil {
		return fmt.Errorf("list failed units: %w", err)
	}
	failed, err := unexpected(list, n.cfg.AllowFailed)
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("wait for systemd: failed units: %s", strings.Join(failed, ", "))
	}
	return nil
}
