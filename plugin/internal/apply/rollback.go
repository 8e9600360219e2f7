package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/log"

	"quiesce/plugin/stage"
)

// debt is a rollback whose restart is still to come. The next transaction of the run pays it with its own restart, so
// that N entries, tried together and then one by one, cost N + 2 restarts at most: one together, one for each of them,
// and one after the last. The journal says that it is owed (stage.StepOwed).
type debt struct {
	results []stage.Result // to be published once the runtime is back
}

// restore puts the host's files back.
func (a *Apply) restore(ctx context.Context, j *stage.Journal) error {
	if f, ok := a.Unit.(Follower); ok {
		if err := f.Mark(ctx); err != nil {
			return err
		}
	}
	// From here on the files may be old or new, whatever the runtime has loaded. A full stage keeps no rollback back.
	if err := a.Store.Advance(j, stage.StepWriting); err != nil {
		log.G(ctx).WithError(err).Warn("the rollback is not noted")
	}
	conflicts, err := a.Store.Rollback(j)
	for _, c := range conflicts {
		log.G(ctx).Warn(c)
	}
	if err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	a.at("files restored")
	return nil
}

// putBack ends a transaction whose restart did not come. A runtime that was started by itself meanwhile may have read
// the new files: it is restarted.
func (a *Apply) putBack(ctx context.Context, j *stage.Journal) error {
	if j.Step == "" {
		return nil // it had not begun
	}
	if err := a.restore(ctx, j); err != nil {
		return err
	}
	now, err := a.Unit.Process(ctx) // after the files are back: what starts from now on reads those
	if err != nil {
		return err
	}
	if now.String() == j.Process && !j.Owed {
		return a.Store.End()
	}
	if err := a.owe(j); err != nil {
		return err
	}
	return a.pay(ctx)
}

// undo rolls a failed batch back: the only entry of it is rejected, several are to be tried alone.
func (a *Apply) undo(ctx context.Context, j *stage.Journal, batch []stage.Entry, why error) error {
	log.G(ctx).WithError(why).WithField("entries", ids(batch)).Warn("rolling back")
	if err := a.restore(ctx, j); err != nil {
		return err
	}
	if err := a.owe(j); err != nil {
		return err
	}
	return a.blame(ctx, batch, why)
}

func (a *Apply) owe(j *stage.Journal) error {
	if a.owed == nil {
		a.owed = &debt{}
	}
	if err := a.Store.Owe(j); err != nil {
		return err
	}
	a.at("restart owed")
	return nil
}

func (a *Apply) blame(ctx context.Context, batch []stage.Entry, why error) error {
	if len(batch) == 1 {
		e, reason := batch[0], "rolled back: "+why.Error()
		log.G(ctx).WithField("entry", e.ID).WithField("reason", reason).Warn("entry rejected")
		a.owed.results = append(a.owed.results, stage.NewResult(e, stage.Rejected, reason))
		return a.Store.Reject(e, reason)
	}
	if len(batch) == 0 {
		return a.Store.GiveUp(why.Error())
	}
	for _, e := range batch {
		e.Alone, e.Attempts = true, 0
		r := stage.NewResult(e, stage.Pending, "it failed together with others and is tried alone: "+why.Error())
		if err := errors.Join(a.Store.Remember(e), a.Store.Publish(r)); err != nil {
			return err
		}
	}
	return nil
}

// pay restarts the runtime if a rollback owes that. A later transaction that a fault has stopped keeps its journal: the
// next run ends it, before any restart.
func (a *Apply) pay(ctx context.Context) error {
	if a.owed == nil {
		return nil
	}
	if j, err := a.Store.Journal(); err != nil || j != nil && j.Step != stage.StepOwed {
		return err
	}
	lost, why := a.restartAgain(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx) // apply is stopped: the journal still says what is owed
	}
	if why != nil {
		log.G(ctx).WithError(why).Error("the runtime does not come back with its old config either")
		for i := range a.owed.results {
			a.owed.results[i].Reason += "; after the rollback: " + why.Error()
		}
	}
	for i := range a.owed.results {
		a.owed.results[i].Lost = lost
	}
	a.at("restart paid")
	if err := a.Store.End(); err != nil {
		return err
	}
	return a.paid()
}

// paid publishes what was kept back until the runtime was back.
func (a *Apply) paid() (errs error) {
	if a.owed == nil {
		return nil
	}
	for _, r := range a.owed.results {
		errs = errors.Join(errs, a.Store.Publish(r))
	}
	a.owed = nil
	return errs
}
