package systemd

import (
	"context"
	"errors"
	"fmt"
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
	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
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
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, name, "fail", props, done); err != nil {
		return nil, fmt.Errorf("start unit %s: %w", name, err)
	}
	if err := wait(ctx, done, "start", name); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return end(ctx, name) }, nil
}

func max0(d time.Duration) time.Duration { return max(d, 0) }

// errNoUnit is systemd's word for a unit it does not know (any more).
const errNoUnit = "org.freedesktop.systemd1.NoSuchUnit"

// end stops a unit and waits until it has ended, also one that is ending by itself. A unit that is gone is no error.
func end(ctx context.Context, unit string) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan string, 1)
	_, err = conn.StopUnitContext(ctx, unit, "replace", done)
	var derr dbus.Error
	if errors.As(err, &derr) && derr.Name == errNoUnit {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop unit %s: %w", unit, err)
	}
	return wait(ctx, done, "stop", unit)
}
