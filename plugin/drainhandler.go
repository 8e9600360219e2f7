package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"quiesce/plugin/internal/daemon"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
)

// emptier drains the pods of handlers for staged changes.
func emptier(cfg Config) func(context.Context, []string) error {
	return func(ctx context.Context, handlers []string) error {
		return withDrainer(cfg, func(d *drainer) error {
			r := request{
				sel: drain.Selection{Handlers: handlers}, trigger: daemon.GateTrigger,
				deadline: cfg.Drain.Deadline.Duration, patience: cfg.Drain.Deadline.Duration,
			}
			if old, err := d.store.Load(); err == nil && old.Active(drain.Boot()) && old.Trigger == r.trigger && old.Selection.String() != r.sel.String() {
				if _, err := d.end(ctx); err != nil { // more changes were staged: the new one is for all of them
					return err
				}
			}
			_, err := d.run(ctx, r, func(context.Context, *drain.Engine) func() { return func() {} })
			return err
		})
	}
}

// resumer ends such a drain.
func resumer(cfg Config) func(context.Context) error {
	return func(ctx context.Context) error {
		return withDrainer(cfg, func(d *drainer) error {
			st, err := d.store.Load()
			if err != nil || !st.Active(drain.Boot()) || st.Trigger != daemon.GateTrigger {
				return err
			}
			// No container of the old shim, nor a sandbox, is to outlive the change: for a moment after the restart there was no fence.
			err = errors.Join(d.keep(ctx), d.sweepSandboxes(ctx, st.Selection))
			_, eerr := d.end(ctx)
			return errors.Join(err, eerr)
		})
	}
}

// sandboxStop is how long one sandbox may take.
const sandboxStop = 15 * time.Second

// sweepSandboxes stops the empty sandboxes that a kubelet has made behind the fence.
func (d *drainer) sweepSandboxes(ctx context.Context, sel drain.Selection) error {
	ctx, cancel := context.WithTimeout(ctx, sandboxStop)
	defer cancel()
	snap, err := d.rt.Snapshot(ctx)
	if err != nil {
		return err
	}
	var g errgroup.Group
	for _, p := range snap.Pods {
		if p.Ready && !p.Creating && sel.Matches(p) && !slices.ContainsFunc(p.Containers, func(c node.Container) bool { return c.Active() }) {
			g.Go(func() error { return d.rt.StopPod(ctx, p.ID) })
		}
	}
	return g.Wait()
}
