package systemd

import (
	"context"
	"errors"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// command is a command line in systemd's D-Bus form, a(sasb) (org.freedesktop.systemd1(5)).
type command struct {
	Path             string
	Args             []string
	UncleanIsFailure bool
}

// StartGuard runs argv as the service name, in a cgroup of its own, and returns when it has said READY=1. However it
// ends, and at the latest after max, cleanup is run. stop ends it; so does nothing else, not even a shutdown, before
// the last processes are killed. The unit is gone once it has ended.
func StartGuard(ctx context.Context, name string, argv, cleanup []string, max time.Duration) (stop func(context.Context) error, err error) {
	property := func(name string, v any) sd.Property { return sd.Property{Name: name, Value: dbus.MakeVariant(v)} }
	micros := func(d time.Duration) uint64 { return uint64(max0(d).Microseconds()) } //nolint:gosec // not negative
	props := []sd.Property{
		sd.PropDescription("Thaw containers if quiesce apply does not"),
		sd.PropType("notify"),
		property("ExecStart", []command{{argv[0], argv, false}}),
		property("ExecStopPost", []command{{cleanup[0], cleanup, false}}),
		property("DefaultDependencies", false),
		property("CollectMode", "inactive-or-failed"),
		property("TimeoutStartUSec", micros(5*time.Second)),
		property("TimeoutStopUSec", micros(5*time.Second)),
		property("RuntimeMaxUSec", micros(max)),
		property("OOMScoreAdjust", int32(-999)),
	}
	j, err := begin(ctx, "start", name, func(conn *sd.Conn, done chan<- string) (int, error) {
		return conn.StartTransientUnitContext(ctx, name, "fail", props, done)
	})
	if err != nil {
		return nil, err
	}
	if err := j.end(ctx, running); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return end(ctx, name) }, nil
}

func max0(d time.Duration) time.Duration { return max(d, 0) }

// errNoUnit is systemd's word for a unit it does not know (any more).
const errNoUnit = "org.freedesktop.systemd1.NoSuchUnit"

// gone tells that a transient unit has ended: systemd drops those, and says not-found of them.
func gone(p Process) bool { return stopped(p) || p.Active == "" }

// end stops a unit and waits until it has ended, also one that is ending by itself. A unit that is gone is no error.
func end(ctx context.Context, unit string) error {
	j, err := begin(ctx, "stop", unit, func(conn *sd.Conn, done chan<- string) (int, error) {
		return conn.StopUnitContext(ctx, unit, "replace", done)
	})
	if derr, ok := errors.AsType[dbus.Error](err); ok && derr.Name == errNoUnit {
		return nil
	}
	if err != nil {
		return err
	}
	return j.end(ctx, gone)
}
