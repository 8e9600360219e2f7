package apply

import (
	"context"
	"fmt"
	"time"

	"quiesce/plugin/stage"
)

// longestLead bounds the wait for the end of the quiet period, whatever the clock does.
const longestLead = 2 * time.Second

// await puts the shims in their place, where nothing sees them yet, and waits until the quiet period is over. What comes in
// between begins it anew: the gate will open again.
func (a *Apply) await(ctx context.Context, t Ticket, batch []stage.Entry) error {
	if t.Due.IsZero() {
		return nil
	}
	for _, e := range batch {
		if err := a.place(ctx, e); err != nil {
			break // it is tried again in a moment, and dealt with
		}
	}
	select {
	case <-time.After(min(time.Until(t.Due), longestLead)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	staged, err := a.Store.Staged()
	switch hold := a.Store.Hold(); {
	case err != nil:
		return err
	case len(staged) > 0:
		return fmt.Errorf("%w: entry %s was staged meanwhile", ErrDeferred, staged[0].ID)
	case hold.Who != "":
		return fmt.Errorf("%w: %s holds", ErrDeferred, hold.Who)
	case a.Draining != nil && a.Draining(ctx):
		return fmt.Errorf("%w: pods are being drained", ErrDeferred)
	}
	return nil
}
