package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Properties reads all that systemd knows of a unit.
func (u Unit) Properties(ctx context.Context) (map[string]any, error) {
	var props map[string]any
	err := ask(ctx, func(conn *dbus.Conn) (err error) {
		props, err = conn.GetAllPropertiesContext(ctx, u.Name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read unit %s: %w", u.Name, err)
	}
	return props, nil
}

// Loaded lists the units that systemd has loaded whose names match a glob.
func Loaded(ctx context.Context, glob string) (names []string, err error) {
	err = ask(ctx, func(conn *dbus.Conn) error {
		all, err := conn.ListUnitsByPatternsContext(ctx, nil, []string{glob})
		names = nil
		for _, u := range all {
			names = append(names, u.Name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list units %s: %w", glob, err)
	}
	return names, nil
}

// MaxDelay is how long logind waits for delay inhibitors: InhibitDelayMaxSec as it is in effect.
func (l *Logind) MaxDelay() (time.Duration, error) {
	v, err := l.object().GetProperty(logindIface + ".InhibitDelayMaxUSec")
	if err != nil {
		return 0, fmt.Errorf("ask logind: %w", err)
	}
	us, ok := v.Value().(uint64)
	if !ok {
		return 0, errors.New("ask logind: InhibitDelayMaxUSec is no number")
	}
	return time.Duration(us) * time.Microsecond, nil //nolint:gosec // microseconds of a shutdown fit
}
