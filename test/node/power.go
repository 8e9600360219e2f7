package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// closeBudget is the longest that the removal of a node may take.
const closeBudget = 30 * time.Second

// PowerCut ends every process of the node at once. Its file system stays; its disks (Config.Disks) lose what was not
// synced, but for those in written.
func (n *Node) PowerCut(ctx context.Context, written ...string) error {
	p := n.current()
	if p == nil {
		return fmt.Errorf("cut power of %s: it is off", n.ID)
	}
	cut := n.cutDisks(ctx, written)
	if err := unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cut power of %s: %w", n.ID, err)
	}
	err := n.off(ctx, p, true)
	if err == nil && cut == nil {
		err = n.revive(ctx)
	}
	if err = errors.Join(cut, err); err != nil {
		return fmt.Errorf("cut power of %s: %w", n.ID, err)
	}
	return nil
}

// Shutdown asks systemd to power off and waits until the node has ended by itself.
func (n *Node) Shutdown(ctx context.Context) error {
	p := n.current()
	if p == nil {
		return fmt.Errorf("shut down %s: it is off", n.ID)
	}
	// systemctl itself may be killed before it can answer.
	_, execErr := n.Exec(ctx, "systemctl", "--no-block", "poweroff")
	if err := n.off(ctx, p, false); err != nil {
		return errors.Join(fmt.Errorf("shut down %s: %w", n.ID, err), execErr)
	}
	return nil
}

// WaitOff waits until the node has ended by itself, after a poweroff that something else asked for.
func (n *Node) WaitOff(ctx context.Context) error {
	p := n.current()
	if p == nil {
		return nil
	}
	if err := n.off(ctx, p, false); err != nil {
		return fmt.Errorf("wait until %s is off: %w", n.ID, err)
	}
	return nil
}

// off waits for the end of init and removes what is left of its container. Processes that are frozen when the
// power is cut must be thawed, or SIGKILL does not end them; and so must those that a shutdown has killed, such as what a
// runc froze that died meanwhile: a machine goes off without waiting for them, a pid namespace does not.
func (n *Node) off(ctx context.Context, p *process, cut bool) error {
	const interval, look = 10 * time.Millisecond, time.Second
	next := time.Now().Add(look)
	err := poll(ctx, interval, func() (bool, error) {
		if p.ended() {
			return true, nil
		}
		if !cut && time.Now().Before(next) {
			return false, nil
		}
		next = time.Now().Add(look)
		dirs, err := cgroupDirs(n.ID)
		if !cut {
			dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !slices.ContainsFunc(cgroupProcs([]string{dir}), killed) })
		}
		thaw(dirs)
		return false, err
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	if n.init == p {
		n.init = nil
		_ = unix.Close(p.fd)
	}
	n.mu.Unlock()
	return killCgroups(ctx, n.ID)
}

// Close removes the node with all its processes, mounts, cgroups and files. It may be called in any state and again.
func (n *Node) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBudget)
	defer cancel()
	n.mu.Lock()
	n.closed = true
	conn := n.conn
	n.conn = nil
	n.mu.Unlock()
	var errs []error
	if conn != nil {
		errs = append(errs, conn.Close())
	}
	if p := n.current(); p != nil {
		errs = append(errs, n.PowerCut(ctx))
	}
	errs = append(errs, demolish(ctx, n.ID, n.dir))
	return errors.Join(errs...)
}

// demolish removes a node of which only id and directory are known.
func demolish(ctx context.Context, id, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, closeBudget, fmt.Errorf("not gone within %v", closeBudget))
	defer cancel()
	if err := killCgroups(ctx, id); err != nil {
		return err
	}
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		err := errors.Join(removeTree(dir), os.RemoveAll(diskImages(id, dir)))
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
			return false, nil
		}
		_, statErr := os.Lstat(dir)
		return errors.Is(statErr, os.ErrNotExist), err
	})
}

// unexpected returns the units of a list in systemctl's JSON that are not in allowed.
func unexpected(list string, allowed []string) ([]string, error) {
	var units []struct {
		Unit string `json:"unit"`
	}
	if err := json.Unmarshal([]byte(list), &units); err != nil {
		return nil, fmt.Errorf("parse list of units: %w", err)
	}
	var names []string
	for _, u := range units {
		if !slices.Contains(allowed, u.Unit) {
			names = append(names, u.Unit)
		}
	}
	return names, nil
}
