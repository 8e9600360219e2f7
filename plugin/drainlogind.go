package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/systemd"
)

// shutdownTrigger is the trigger of a drain because the node goes down.
const shutdownTrigger = "shutdown"

// logindRetry is how long a bus that is not there is left alone.
const logindRetry = 10 * time.Second

// followLogind begins the drain of a shutdown as soon as logind announces it, before systemd stops anything. What is
// not done when logind's patience ends goes on in the drain unit's ExecStop, which waits for the drain's lock.
func followLogind(ctx context.Context, cfg Config) error {
	for ctx.Err() == nil {
		if err := logindOnce(ctx, cfg); err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).Debug("logind is not followed; the drain unit drains all the same")
		}
		select {
		case <-ctx.Done():
		case <-time.After(logindRetry):
		}
	}
	return nil
}

func logindOnce(ctx context.Context, cfg Config) error {
	l, err := systemd.NewLogind(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	raiseDelay(ctx, cfg, l)
	shutdowns, err := l.Shutdowns(ctx)
	if err != nil {
		return err
	}
	for {
		inhibitor, err := l.Delay(ctx, "stop pods in order")
		if err != nil {
			return err
		}
		begun, ok := <-shutdowns
		on := begun && ok
		if on {
			on, err = shutdownBegins(ctx, cfg, l, shutdowns)
		}
		_ = inhibitor.Close() // logind sees that it is closed
		if on {               // it goes on, or is cancelled later
			begun, ok = <-shutdowns
		}
		switch {
		case !ok:
			return errors.New("the system bus is gone")
		case err != nil:
			return err
		case !begun || !on:
			if err := shutdownCancelled(ctx, cfg); err != nil {
				return err
			}
		}
	}
}

// shutdownCancelled brings everything back that was drained for a shutdown.
func shutdownCancelled(ctx context.Context, cfg Config) error {
	return withDrainer(cfg, func(d *drainer) error {
		st, err := d.store.Load()
		if err != nil || !st.Active(drain.Boot()) || st.Trigger != shutdownTrigger {
			return err
		}
		log.G(ctx).Info("the shutdown was cancelled")
		_, err = d.end(ctx)
		return err
	})
}

// shutdownBegins drains until that is done or the shutdown is cancelled: on is false then.
func shutdownBegins(ctx context.Context, cfg Config, l *systemd.Logind, shutdowns <-chan bool) (on bool, err error) {
	if others, err := l.Others(ctx); err == nil && slices.Contains(others, "kubelet") {
		log.G(ctx).Info("a shutdown begins; the kubelet delays it to stop pods itself, the rest is for the drain unit")
		return true, nil
	}
	log.G(ctx).Info("a shutdown begins")
	draining, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan error, 1)
	go func() {
		done <- withDrainer(cfg, func(d *drainer) error {
			_, err := d.run(draining, request{sel: drain.Selection{All: true}, trigger: shutdownTrigger, binding: true, deadline: cfg.Drain.Deadline.Duration, patience: brief},
				func(context.Context, *drain.Engine) func() { return func() {} })
			return err
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			log.G(ctx).WithError(err).Warn("the drain goes on in the drain unit")
		}
		return true, nil
	case again, ok := <-shutdowns:
		if ok && !again {
			stop(errors.New("the shutdown was cancelled"))
		}
		if err := <-done; err != nil {
			log.G(ctx).WithError(err).Info("the drain was cut off")
		}
		return !ok || again, nil
	}
}
