package systemd

import (
	"context"
	"time"

	"github.com/containerd/log"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Ready tells systemd that the daemon serves.
func Ready(ctx context.Context) { notify(ctx, daemon.SdNotifyReady) }

// Stopping tells systemd that the daemon ends.
func Stopping(ctx context.Context) { notify(ctx, daemon.SdNotifyStopping) }

func notify(ctx context.Context, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.G(ctx).WithError(err).Warn("systemd was not notified")
	}
}

// Watchdog feeds systemd's watchdog until ctx ends, as long as alive says so within half the interval.
func Watchdog(ctx context.Context, alive func(context.Context) error) error {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		check, cancel := context.WithTimeout(ctx, interval/2)
		err := alive(check)
		cancel()
		if err != nil {
			log.G(ctx).WithError(err).Error("the daemon does not answer itself; leaving it to systemd's watchdog")
			continue
		}
		notify(ctx, daemon.SdNotifyWatchdog)
	}
}
