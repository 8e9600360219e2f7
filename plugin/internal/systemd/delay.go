package systemd

import (
	"context"
	"fmt"
	"syscall"

	sd "github.com/coreos/go-systemd/v22/dbus"
)

// ReloadLogind makes logind read its configuration: SIGHUP, as the kubelet does it. Sessions and inhibitors stay.
func ReloadLogind(ctx context.Context) error {
	err := ask(ctx, func(conn *sd.Conn) error {
		return conn.KillUnitWithTarget(ctx, "systemd-logind.service", sd.Main, int32(syscall.SIGHUP))
	})
	if err != nil {
		return fmt.Errorf("reload logind: %w", err)
	}
	return nil
}
