package systemd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Unit is one unit of this host.
type Unit struct{ Name string }

// Process identifies the process a unit runs: it changes with each start.
type Process struct {
	Invocation string // systemd's InvocationID, hex
	PID        int
	Active     string // systemd's ActiveState
}

// String is for the journal: two of them differ if the unit was started in between.
func (p Process) String() string { return fmt.Sprintf("%s/%d", p.Invocation, p.PID) }

func connect(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err == nil {
		return conn, nil
	}
	conn, berr := dbus.NewSystemConnectionContext(ctx)
	if berr != nil {
		return nil, fmt.Errorf("connect to systemd: %w", errors.Join(err, berr))
	}
	return conn, nil
}

// Process reads what the unit runs now.
func (u Unit) Process(ctx context.Context) (Process, error) {
	conn, err := connect(ctx)
	if err != nil {
		return Process{}, err
	}
	defer conn.Close()
	return u.process(ctx, conn)
}

func (u Unit) process(ctx context.Context, conn *dbus.Conn) (Process, error) {
	props, err := conn.GetAllPropertiesContext(ctx, u.Name)
	if err != nil {
		return Process{}, fmt.Errorf("read unit %s: %w", u.Name, err)
	}
	if load, _ := props["LoadState"].(string); load == "not-found" {
		return Process{}, fmt.Errorf("read unit %s: systemd does not know it; set unit in the configuration", u.Name)
	}
	id, _ := props["InvocationID"].([]byte)
	pid, _ := props["MainPID"].(uint32)
	active, _ := props["ActiveState"].(string)
	return Process{Invocation: hex.EncodeToString(id), PID: int(pid), Active: active}, nil
}

// Restart restarts the unit and waits for systemd's job. It returns the process before and after; a job that
// is not done is an error, and so is a process that is still the old one.
func (u Unit) Restart(ctx context.Context) (before, after Process, err error) {
	conn, err := connect(ctx)
	if err != nil {
		return before, after, err
	}
	defer conn.Close()
	if before, err = u.process(ctx, conn); err != nil {
		return before, after, err
	}
	// The start limit counts our restarts too (5 in 10 s by default); resetting fails only if there is nothing to reset.
	_ = conn.ResetFailedUnitContext(ctx, u.Name)
	done := make(chan string, 1)
	if _, err := conn.RestartUnitContext(ctx, u.Name, "replace", done); err != nil {
		return before, after, fmt.Errorf("restart unit %s: %w", u.Name, err)
	}
	if err := wait(ctx, done, "restart", u.Name); err != nil {
		return before, after, err
	}
	if after, err = u.process(ctx, conn); err != nil {
		return before, after, err
	}
	if after.Invocation == before.Invocation && after.PID == before.PID {
		return before, after, fmt.Errorf("restart unit %s: systemd says done, but the process is the old one (PID %d)", u.Name, after.PID)
	}
	return before, after, nil
}

// Start starts the unit and waits for its job, which for a oneshot ends when its program has.
func (u Unit) Start(ctx context.Context) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.ResetFailedUnitContext(ctx, u.Name)
	done := make(chan string, 1)
	if _, err := conn.StartUnitContext(ctx, u.Name, "replace", done); err != nil {
		return fmt.Errorf("start unit %s: %w", u.Name, err)
	}
	return wait(ctx, done, "start", u.Name)
}

func wait(ctx context.Context, done <-chan string, verb, unit string) error {
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s unit %s: systemd's job ended %q", verb, unit, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s unit %s: %w", verb, unit, context.Cause(ctx))
	}
}

// Command is the command line of the unit: of its process if it runs, else of its ExecStart.
func (u Unit) Command(ctx context.Context) ([]string, error) {
	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	p, err := u.process(ctx, conn)
	if err != nil {
		return nil, err
	}
	if p.PID > 0 {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); err == nil && len(b) > 0 {
			return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), nil
		}
	}
	prop, err := conn.GetUnitTypePropertyContext(ctx, u.Name, "Service", "ExecStart")
	if err != nil {
		return nil, fmt.Errorf("read unit %s: %w", u.Name, err)
	}
	// a(sasbttttuii): path, argv, …
	if cmds, ok := prop.Value.Value().([][]any); ok && len(cmds) > 0 && len(cmds[0]) > 1 {
		if argv, ok := cmds[0][1].([]string); ok {
			return argv, nil
		}
	}
	return nil, fmt.Errorf("read unit %s: it has no ExecStart", u.Name)
}
