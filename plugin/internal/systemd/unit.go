package systemd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Unit is one unit of this host.
type Unit struct{ Name string }

// Process identifies the process a unit runs: it changes with each start.
type Process struct {
	Invocation string // systemd's InvocationID, hex
	PID        int
	Active     string // systemd's ActiveState
	Result     string // how it ended last: success, exit-code, …
}

// String is for the journal: two of them differ if the unit was started in between.
func (p Process) String() string { return fmt.Sprintf("%s/%d", p.Invocation, p.PID) }

// absent is how long systemd may be away where it runs: while it executes itself anew.
const absent = 5 * time.Second

func connect(ctx context.Context) (*dbus.Conn, error) {
	began := time.Now()
	for {
		conn, err := dbus.NewSystemdConnectionContext(ctx)
		if err == nil {
			return conn, nil
		}
		conn, berr := dbus.NewSystemConnectionContext(ctx)
		if berr == nil {
			return conn, nil
		}
		_, nowhere := os.Stat("/run/systemd/system") // sd_booted(3)
		if nowhere != nil || time.Since(began) > absent {
			return nil, fmt.Errorf("connect to systemd: %w", errors.Join(err, berr))
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to systemd: %w", errors.Join(context.Cause(ctx), err, berr))
		}
	}
}

// errUnknown says that there is no such unit.
var errUnknown = errors.New("systemd does not know it; set unit in the configuration")

// Process reads what the unit runs now.
func (u Unit) Process(ctx context.Context) (Process, error) {
	var props map[string]any
	err := ask(ctx, func(conn *dbus.Conn) (err error) {
		props, err = conn.GetAllPropertiesContext(ctx, u.Name)
		return err
	})
	if err != nil {
		return Process{}, fmt.Errorf("read unit %s: %w", u.Name, err)
	}
	if load, _ := props["LoadState"].(string); load == "not-found" {
		return Process{}, fmt.Errorf("read unit %s: %w", u.Name, errUnknown)
	}
	id, _ := props["InvocationID"].([]byte)
	pid, _ := props["MainPID"].(uint32)
	active, _ := props["ActiveState"].(string)
	result, _ := props["Result"].(string)
	return Process{Invocation: hex.EncodeToString(id), PID: int(pid), Active: active, Result: result}, nil
}

// ask asks systemd something that changes nothing, again if the connection ends meanwhile.
func ask(ctx context.Context, f func(*dbus.Conn) error) error {
	for try := 1; ; try++ {
		conn, err := connect(ctx)
		if err != nil {
			return err
		}
		err = f(conn)
		conn.Close()
		if _, answered := errors.AsType[godbus.Error](err); err == nil || answered || ctx.Err() != nil || try == tries {
			return err
		}
	}
}

// Restart restarts the unit and waits for systemd's job. It returns the process before and after; a job that is not done
// is an error.
func (u Unit) Restart(ctx context.Context) (before, after Process, err error) {
	if before, err = u.Process(ctx); err != nil {
		return before, after, err
	}
	j, err := beginOver(ctx, connectBus, "restart", u.Name, func(conn *dbus.Conn, done chan<- string) (int, error) {
		// The start limit counts our restarts too (5 in 10 s by default); resetting fails only if there is nothing to reset.
		_ = conn.ResetFailedUnitContext(ctx, u.Name)
		return conn.RestartUnitContext(ctx, u.Name, "replace", done)
	})
	if err != nil {
		return before, after, err
	}
	if err := j.end(ctx, func(p Process) bool { return running(p) && p.String() != before.String() }); err != nil {
		return before, after, err
	}
	after, err = u.Process(ctx)
	return before, after, err
}

// Start starts the unit and waits for its job, which for a oneshot ends when its program has.
func (u Unit) Start(ctx context.Context) error {
	j, err := beginOver(ctx, connectBus, "start", u.Name, func(conn *dbus.Conn, done chan<- string) (int, error) {
		_ = conn.ResetFailedUnitContext(ctx, u.Name)
		return conn.StartUnitContext(ctx, u.Name, "replace", done)
	})
	if err != nil {
		return err
	}
	return j.end(ctx, func(p Process) bool { return running(p) || p.Active == "inactive" && p.Result == "success" })
}

// Command is the command line of the unit: of its process if it runs, else of its ExecStart.
func (u Unit) Command(ctx context.Context) ([]string, error) {
	p, err := u.Process(ctx)
	if err != nil {
		return nil, err
	}
	if p.PID > 0 {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); err == nil && len(b) > 0 {
			return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), nil
		}
	}
	return u.StartCommand(ctx)
}

// StartCommand is the command line of its ExecStart, as systemd has it loaded: what the next start runs.
func (u Unit) StartCommand(ctx context.Context) ([]string, error) {
	cmds, err := u.commands(ctx, "ExecStart")
	if err != nil {
		return nil, err
	}
	if len(cmds) > 0 && len(cmds[0]) > 1 {
		if argv, ok := cmds[0][1].([]string); ok {
			return argv, nil
		}
	}
	return nil, fmt.Errorf("read unit %s: it has no ExecStart", u.Name)
}

// StopRan tells whether the unit's ExecStop was run since the unit was last started.
func (u Unit) StopRan(ctx context.Context) (bool, error) {
	cmds, err := u.commands(ctx, "ExecStop")
	if err != nil || len(cmds) == 0 || len(cmds[0]) < 4 {
		return false, err
	}
	began, _ := cmds[0][3].(uint64)
	return began > 0, nil
}

// commands are a property of type a(sasbttttuii): path, argv, failures are ignored, began (real time), …
func (u Unit) commands(ctx context.Context, name string) ([][]any, error) {
	var prop *dbus.Property
	err := ask(ctx, func(conn *dbus.Conn) (err error) {
		prop, err = conn.GetUnitTypePropertyContext(ctx, u.Name, "Service", name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read unit %s: %w", u.Name, err)
	}
	cmds, _ := prop.Value.Value().([][]any)
	return cmds, nil
}
