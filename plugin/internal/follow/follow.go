// Package follow watches a runtime that is no unit of its own and is restarted by others, such as k0s's containerd: it is
// known by the process behind its socket.
package follow

import (
	"context"
	"fmt"
	"time"

	"quiesce/plugin/internal/process"
	"quiesce/plugin/internal/systemd"
)

// Runtime is such a runtime. Its methods are not for several goroutines.
type Runtime struct {
	Socket string
	Peer   func(socket string) (pid int, err error)

	mark systemd.Process
}

// Process is the process behind the socket, with its start time; without one the PID is 0.
func (r *Runtime) Process(context.Context) (systemd.Process, error) {
	pid, err := r.Peer(r.Socket)
	if err != nil {
		return systemd.Process{Active: "inactive"}, nil //nolint:nilerr // nobody listens: it does not run
	}
	return systemd.Process{Invocation: process.Start(pid), PID: pid, Active: "active"}, nil
}

// Mark remembers the process from before the files change.
func (r *Runtime) Mark(ctx context.Context) (err error) {
	r.mark, err = r.Process(ctx)
	return err
}

// Restart waits until another process than the marked one is behind the socket.
func (r *Runtime) Restart(ctx context.Context) (before, after systemd.Process, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		after, err = r.Process(ctx)
		if err != nil || after.PID != 0 && after.String() != r.mark.String() {
			return r.mark, after, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r.mark, after, fmt.Errorf("wait until the runtime is restarted by its supervisor: %w", context.Cause(ctx))
		}
	}
}
