package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Installed tells whether systemd knows the unit and has been told to run it: it runs, or is enabled.
func (u Unit) Installed(ctx context.Context) (bool, error) {
	var props map[string]any
	err := ask(ctx, func(conn *sd.Conn) (err error) {
		props, err = conn.GetUnitPropertiesContext(ctx, u.Name)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read unit %s: %w", u.Name, err)
	}
	load, _ := props["LoadState"].(string)
	file, _ := props["UnitFileState"].(string)
	active, _ := props["ActiveState"].(string)
	return load == "loaded" && (file == "enabled" || file == "enabled-runtime" || active != "inactive"), nil
}

// RunOnce runs argv as the oneshot service name, in a cgroup of its own, and waits for its end; cleanup is run however it
// ends. A unit of that name that is installed is started instead.
func RunOnce(ctx context.Context, name string, argv, cleanup []string, limit time.Duration) error {
	if _, err := (Unit{name}).Process(ctx); !errors.Is(err, errUnknown) {
		return errors.Join(err, Unit{name}.Start(ctx))
	}
	property := func(name string, v any) sd.Property { return sd.Property{Name: name, Value: dbus.MakeVariant(v)} }
	props := []sd.Property{
		sd.PropDescription("Apply staged containerd changes"),
		sd.PropType("oneshot"),
		property("ExecStart", []command{{argv[0], argv, false}}),
		property("ExecStopPost", []command{{cleanup[0], cleanup, false}}),
		property("CollectMode", "inactive-or-failed"),
		property("KillMode", "mixed"),
		property("NotifyAccess", "main"),
		property("TimeoutStartUSec", uint64(limit.Microseconds())), //nolint:gosec // not negative
	}
	j, err := beginOver(ctx, connectBus, "start", name, func(conn *sd.Conn, done chan<- string) (int, error) {
		return conn.StartTransientUnitContext(ctx, name, "fail", props, done)
	})
	if err != nil {
		return err
	}
	return j.end(ctx, gone)
}
