package apply

import (
	"context"
	"fmt"
	"time"
)

// longestLead bounds the wait for the end of the quiet period, whatever the clock does.
const longestLead = 2 * time.Second

// await waits until the quiet period is over, with everything done that the runtime does not see. What comes in between
// begins it anew: the gate will open again.
func (a *Apply) await(ctx context.Context, t Ticket) error {
	if t.Due.IsZero() {
		return nil
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
