// Package systemd is the part of systemd's manager that putting a node in order needs.
package systemd

import (
	"context"
	"errors"
	"fmt"

	"github.com/coreos/go-systemd/v22/dbus"

	"quiesce/installer/internal/host"
)

// Manager is a connection to systemd.
type Manager struct{ conn *dbus.Conn }

// Connect connects to systemd itself, or else by way of the system bus.
func Connect(ctx context.Context) (*Manager, error) {
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		var berr error
		if conn, berr = dbus.NewSystemConnectionContext(ctx); berr != nil {
			return nil, fmt.Errorf("connect to systemd: %w", errors.Join(err, berr))
		}
	}
	return &Manager{conn}, nil
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
	return host.State{Active: active, Stale: stale, Unknown: load == "not-found", PID: int(pid)}, nil
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
