// Package systemd is the part of systemd's manager that putting a node in order needs.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"quiesce/installer/internal/host"
)

// Manager is a connection to systemd.
type Manager struct{ conn *dbus.Conn }

// Connect connects to systemd itself, or else by way of the system bus. root is the node's root directory.
func Connect(ctx context.Context, root string) (*Manager, error) {
	at := func(socket string, hello bool) (*dbus.Conn, error) {
		return dbus.NewConnection(func() (*godbus.Conn, error) { return dial(ctx, filepath.Join(root, socket), hello) })
	}
	conn, err := at("run/systemd/private", false)
	if err != nil {
		var berr error
		if conn, berr = at("run/dbus/system_bus_socket", true); berr != nil {
			return nil, fmt.Errorf("connect to systemd: %w", errors.Join(err, berr))
		}
	}
	return &Manager{conn}, nil
}

// dial connects to a socket as the user of this process. systemd's own takes no Hello.
func dial(ctx context.Context, socket string, hello bool) (*godbus.Conn, error) {
	conn, err := godbus.Dial("unix:path="+godbus.EscapeBusAddressValue(socket), godbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && hello {
		err = conn.Hello()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Close ends the connection.
func (m *Manager) Close() { m.conn.Close() }

// State reads what systemd makes of a unit.
func (m *Manager) State(ctx context.Context, unit string) (host.State, error) {
	props, err := m.conn.GetAllPropertiesContext(ctx, unit)
	if err != nil {
		return host.State{}, fmt.Errorf("read unit %s: %w", unit, err)
	}
	active, _ := props["ActiveState"].(string)
	stale, _ := props["NeedDaemonReload"].(bool)
	load, _ := props["LoadState"].(string)
	pid, _ := props["MainPID"].(uint32)
	began, _ := props["ExecMainStartTimestamp"].(uint64)                                                                                   // in microseconds
	return host.State{Active: active, Stale: stale, Unknown: load == "not-found", PID: int(pid), Began: time.UnixMicro(int64(began))}, nil //nolint:gosec // it fits
}

// Reload makes systemd read its unit files again.
func (m *Manager) Reload(ctx context.Context) error {
	if err := m.conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reload systemd: %w", err)
	}
	return nil
}

// Run runs a job and waits for its end.
func (m *Manager) Run(ctx context.Context, job host.Job, unit string) error {
	begin := m.conn.RestartUnitContext
	if job == host.Stop {
		begin = m.conn.StopUnitContext
	}
	done := make(chan string, 1) // buffered, or the connection stalls
	if _, err := begin(ctx, unit, "replace", done); err != nil {
		return fmt.Errorf("%s %s: %w", job, unit, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", job, unit, context.Cause(ctx))
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s %s: systemd says %q; see journalctl -u %s", job, unit, result, unit)
		}
	}
	if job == host.Stop {
		_ = m.conn.ResetFailedUnitContext(ctx, unit) // only so that nothing of it stays in systemctl's lists
	}
	return nil
}
