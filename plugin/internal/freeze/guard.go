package freeze

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"
)

// Guarded is what a guard watches.
type Guarded struct {
	Dir    string // where the list is
	Window string
	Owner  Process
	Limit  time.Duration
}

// sweepEvery is how often a guard looks, and thaws once the limit is over.
const sweepEvery = 50 * time.Millisecond

// Guard thaws the window when its owner dies or the limit is over, or ctx ends, and returns when the owner has died or
// ctx has ended. ready is called once the owner is watched. After the limit it thaws again and again: an owner that was
// stopped (SIGSTOP) between its look at the clock and the freezing would freeze afterwards.
func Guard(ctx context.Context, g Guarded, ready func()) error {
	thaw := func() error { return ThawAll(context.WithoutCancel(ctx), g.Dir, g.Window) }
	fd, err := unix.PidfdOpen(g.Owner.PID, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return errors.Join(fmt.Errorf("watch apply: %w", err), thaw())
	}
	if err != nil || !g.Owner.Lives() {
		return thaw()
	}
	defer unix.Close(fd)
	ready()
	limit := time.Now().Add(g.Limit)
	for ctx.Err() == nil {
		died, err := ended(fd, sweepEvery)
		if died || err != nil {
			return errors.Join(err, thaw())
		}
		if time.Now().After(limit) {
			if err := thaw(); err != nil {
				log.G(ctx).WithError(err).Error("not thawed, trying again")
			}
		}
	}
	return thaw()
}

// ended waits for the end of a process.
func ended(pidfd int, wait time.Duration) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
	n, err := unix.Poll(fds, int(wait.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("watch apply: %w", err)
	}
	return err == nil && n == 1, nil
}
