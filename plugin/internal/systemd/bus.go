package systemd

import (
	"context"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

const busSocket = "/run/dbus/system_bus_socket"

// BusAnswers tells whether the D-Bus daemon accepts connections. systemd itself is reached without it; logind is not.
func BusAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", busSocket)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// busFor is how long the bus may take to let a client in.
const busFor = 500 * time.Millisecond

// connectBus connects for a long wait, over the bus where it answers: it passes on only what was asked for. Over its private
// socket systemd sends every client each change of each unit, and is slowed down by that while it restarts the runtime.
func connectBus(ctx context.Context) (*dbus.Conn, context.CancelFunc, error) {
	bus, cancel := context.WithCancel(ctx) // the connection ends with it
	late := time.AfterFunc(busFor, cancel)
	conn, err := dbus.NewSystemConnectionContext(bus)
	if late.Stop() && err == nil {
		return conn, cancel, nil
	}
	cancel()
	if err == nil {
		conn.Close()
	}
	conn, err = connect(ctx)
	return conn, nil, err
}
