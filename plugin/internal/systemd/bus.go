package systemd

import (
	"context"
	"net"
	"time"
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
