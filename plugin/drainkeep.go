package main

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/daemon"
	"quiesce/plugin/internal/drain"
)

// keepEvery is how often the daemon looks for what runs behind a fence.
const keepEvery = 2 * time.Second

// keepDrained stops what slipped through while the plugin was not registered, and goes on with a drain whose process
// died. Whoever holds the drain's lock does it himself.
func keepDrained(ctx context.Context, cfg Config, drains *daemon.Drains) error {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s := drains.Status()
		if !s.Fence || s.Phase == drain.Interrupted {
			continue
		}
		if err := withDrainer(cfg, func(d *drainer) error { return d.keep(ctx) }); err != nil && ctx.Err() == nil && !errors.Is(err, drain.ErrLocked) {
			log.G(ctx).WithError(err).Warn("what runs behind the fence is not known")
		}
	}
}

func (d *drainer) keep(ctx context.Context) error {
	st, err := d.store.Load()
	if err != nil || !st.Active(drain.Boot()) {
		return err
	}
	d.policy.KeepSandboxes = st.KeepSandboxes
	if st.Phase == drain.Drained { // take the lock only if there is something to do
		snap, err := d.rt.Snapshot(ctx)
		if err != nil {
			return err
		}
		plan, _ := drain.New(snap, d.policy, st.Selection) // its problems were told when the drain began
		if !st.Clone().Extend(plan, time.Now(), 0) {
			return nil
		}
	}
	_, err = d.run(ctx, request{sel: st.Selection, trigger: st.Trigger, deadline: d.cfg.Drain.Deadline.Duration},
		func(context.Context, *drain.Engine) func() { return func() {} })
	return err
}
