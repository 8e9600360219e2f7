package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quiesce/plugin/internal/gate"
	"quiesce/plugin/stage"
)

// emptying is what is to be done now about the gate's own drain: begin it, or end it because no staged change needs it
// any more. Its fence stays up as long as one does, over restarts of the daemon too.
func (d *Daemon) emptying(in gate.Input, dec gate.Decision) func(context.Context) error {
	own := d.Drains.Own()
	switch {
	case d.busy || d.Empty == nil || d.Resume == nil:
		return nil
	case len(dec.Drain) > 0:
		return func(ctx context.Context) error {
			if err := d.Empty(ctx, dec.Drain); err != nil {
				return fmt.Errorf("drain pods of %s: %w", strings.Join(dec.Drain, ", "), err)
			}
			return nil
		}
	case len(own) > 0 && !in.Running && !slices.ContainsFunc(in.Pending, needs(own)):
		return d.Resume
	}
	return nil
}

// needs tells of an entry whether it needs a drain.
func needs(own []string) func(stage.Entry) bool {
	return func(e stage.Entry) bool {
		return e.Drain && slices.ContainsFunc(e.Names(), func(h string) bool { return slices.Contains(own, h) })
	}
}

// drained notes how the gate's own drain ended. One that failed is tried again as an apply is.
func (d *Daemon) drained(ctx context.Context, err error) {
	if ctx.Err() == nil && err != nil {
		d.applied(ctx, err)
	}
	d.Drains.Refresh()
}
