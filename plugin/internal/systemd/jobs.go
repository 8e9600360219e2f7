package systemd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Manager is what systemd is about to do.
type Manager struct {
	State string            // running, stopping, …: systemctl is-system-running
	Jobs  map[string]string // type of the job of each unit that has one: start, stop, restart, …
}

// Look asks systemd once.
func Look(ctx context.Context) (Manager, error) {
	conn, err := connect(ctx)
	if err != nil {
		return Manager{}, err
	}
	defer conn.Close()
	m := Manager{Jobs: map[string]string{}}
	state, err := conn.SystemStateContext(ctx)
	if err != nil {
		return m, fmt.Errorf("ask systemd's state: %w", err)
	}
	m.State, _ = state.Value.Value().(string)
	jobs, err := conn.ListJobsContext(ctx)
	if err != nil {
		return m, fmt.Errorf("list systemd's jobs: %w", err)
	}
	for _, j := range jobs {
		m.Jobs[j.Unit] = j.JobType
	}
	return m, nil
}

// Begin starts the unit without waiting: whoever is ordered before it must not wait for it (facts: a deadlock).
func (u Unit) Begin(ctx context.Context) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.StartUnitContext(ctx, u.Name, "replace", nil); err != nil {
		return fmt.Errorf("start unit %s: %w", u.Name, err)
	}
	return nil
}

// Active is systemd's ActiveState of the unit.
func (u Unit) Active(ctx context.Context) (string, error) {
	p, err := u.Process(ctx)
	return p.Active, err
}

// Extend asks systemd for more time, from now, for the service whose control process this is.
func Extend(ctx context.Context, d time.Duration) {
	notify(ctx, "EXTEND_TIMEOUT_USEC="+strconv.FormatInt(d.Microseconds(), 10))
}

// Halt stops the unit and waits for its job.
func (u Unit) Halt(ctx context.Context) error {
	j, err := begin(ctx, "stop", u.Name, func(conn *dbus.Conn, done chan<- string) (int, error) {
		return conn.StopUnitContext(ctx, u.Name, "replace", done)
	})
	if err != nil {
		return err
	}
	return j.end(ctx, stopped)
}
