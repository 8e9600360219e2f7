package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
)

const (
	logindName  = "org.freedesktop.login1"
	logindPath  = "/org/freedesktop/login1"
	logindIface = logindName + ".Manager"
)

// Logind follows logind's shutdowns behind a delay inhibitor: logind waits for it, up to InhibitDelayMaxSec.
type Logind struct{ conn *dbus.Conn }

// NewLogind connects to the system bus.
func NewLogind(ctx context.Context) (*Logind, error) {
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("connect to logind: %w", err)
	}
	return &Logind{conn: conn}, nil
}

// Close ends the connection.
func (l *Logind) Close() error { return l.conn.Close() }

func (l *Logind) object() dbus.BusObject { return l.conn.Object(logindName, logindPath) }

// Delay takes a delay inhibitor. Closing it lets the shutdown go on.
func (l *Logind) Delay(ctx context.Context, why string) (*os.File, error) {
	var fd dbus.UnixFD
	if err := l.object().CallWithContext(ctx, logindIface+".Inhibit", 0, "shutdown", "quiesce", why, "delay").Store(&fd); err != nil {
		return nil, fmt.Errorf("delay shutdown: %w", err)
	}
	return os.NewFile(uintptr(fd), "inhibitor"), nil //nolint:gosec // a descriptor is not negative
}

// Others lists who else delays a shutdown.
func (l *Logind) Others(ctx context.Context) (who []string, err error) {
	var all []struct {
		What, Who, Why, Mode string
		UID, PID             uint32
	}
	if err := l.object().CallWithContext(ctx, logindIface+".ListInhibitors", 0).Store(&all); err != nil {
		return nil, fmt.Errorf("list inhibitors: %w", err)
	}
	for _, i := range all {
		if i.Mode == "delay" && i.Who != "quiesce" && slices.Contains(strings.Split(i.What, ":"), "shutdown") {
			who = append(who, i.Who)
		}
	}
	return who, nil
}

// Shutdowns gives true when a shutdown begins and false when it is cancelled, until ctx ends or the bus is gone. The bus
// filters by sender, and logind's own property is asked: any process may send a signal that looks like logind's.
func (l *Logind) Shutdowns(ctx context.Context) (<-chan bool, error) {
	err := l.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(logindName), dbus.WithMatchInterface(logindIface),
		dbus.WithMatchObjectPath(logindPath), dbus.WithMatchMember("PrepareForShutdown"))
	if err != nil {
		return nil, fmt.Errorf("follow logind: %w", err)
	}
	signals, out := make(chan *dbus.Signal, 16), make(chan bool)
	l.conn.Signal(signals)
	go func() {
		defer close(out)
		for {
			select {
			case s, ok := <-signals:
				if !ok {
					return
				}
				now, err := l.preparing(ctx)
				if len(s.Body) != 1 || err != nil || s.Body[0] != now {
					continue
				}
				select {
				case out <- now:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (l *Logind) preparing(ctx context.Context) (bool, error) {
	var v dbus.Variant
	if err := l.object().CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, logindIface, "PreparingForShutdown").Store(&v); err != nil {
		return false, fmt.Errorf("ask logind: %w", err)
	}
	b, ok := v.Value().(bool)
	if !ok {
		return false, errors.New("ask logind: PreparingForShutdown is no boolean")
	}
	return b, nil
}
