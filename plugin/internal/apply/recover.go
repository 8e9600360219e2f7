package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/stage"
)

// recover ends the transaction that an earlier apply left: after a crash, or after a boot, where the runtime
// could not be asked yet.
func (a *Apply) recover(ctx context.Context, t Ticket) error {
	j, err := a.Store.Journal()
	if err != nil || j == nil {
		return err
	}
	batch, err := a.entriesOf(j)
	if err != nil {
		return err
	}
	log.G(ctx).WithField("entries", j.Entries).WithField("step", j.Step).Info("ending the transaction of an earlier run")
	if j.Step == stage.StepVerified {
		return a.conclude(ctx, j, batch)
	}
	now, err := a.Unit.Process(ctx)
	if err != nil {
		return err
	}
	if now.String() == j.Process {
		return a.putBack(ctx, j) // the runtime never saw the change; the entries are tried again
	}
	a.ran = j.Ran
	if j.Step == stage.StepWriting || j.Step == stage.StepOwed {
		return a.startOver(ctx, t, j) // it may have seen a part of it
	}
	vctx, cancel := context.WithTimeoutCause(ctx, a.Verify, fmt.Errorf("the runtime was not ready within %v", a.Verify))
	why := a.comeBack(vctx, batch)
	cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if why == nil {
		j.Lost = a.missed(ctx)
		if j.Step == stage.StepRestarting && a.Store.LastRestart().Began.Before(j.Began) { // it died before it counted it
			a.count(ctx, stage.Restart{Began: j.Began, Entries: j.Entries, Lost: j.Lost})
		}
		if err := a.Store.Advance(j, stage.StepVerified); err != nil {
			return err
		}
		a.at("verified")
		return a.conclude(ctx, j, batch)
	}
	if a.CRI.Answers(ctx) {
		if err := a.lastLook(ctx, t, nil); err != nil {
			return err // the journal stays, the gate opens for it again
		}
	}
	if err := a.undo(ctx, j, batch, why); err != nil {
		return err
	}
	return a.pay(ctx)
}

// startOver puts the files back and restarts the runtime, which may run with new ones. The entries are tried again.
func (a *Apply) startOver(ctx context.Context, t Ticket, j *stage.Journal) error {
	if a.CRI.Answers(ctx) {
		if err := a.lastLook(ctx, t, nil); err != nil {
			return err
		}
	}
	if err := a.restore(ctx, j); err != nil {
		return err
	}
	if err := a.owe(j); err != nil {
		return err
	}
	return a.pay(ctx)
}

func (a *Apply) entriesOf(j *stage.Journal) ([]stage.Entry, error) {
	acting, err := a.Store.Acting()
	return slices.DeleteFunc(acting, func(e stage.Entry) bool { return !slices.Contains(j.Entries, e.ID) }), err
}

// ErrRunning says that Boot came too late.
var ErrRunning = errors.New("the runtime runs already: entries are left to the daemon")

// Boot applies installs before the runtime starts, so that it starts with them. It restarts nothing and asks the
// runtime nothing: the journal stays open for the daemon to verify. Removals wait for a runtime that can tell who uses
// the handler.
func (a *Apply) Boot(ctx context.Context) (err error) {
	p, err := a.Unit.Process(ctx)
	if err != nil {
		return err
	}
	if p.PID != 0 {
		return ErrRunning
	}
	unlock, err := a.Store.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.faults, unlock()) }()
	pending, err := a.Store.Pending()
	if err != nil {
		return err
	}
	if len(pending) == 0 && !a.Store.Interrupted() {
		if drift, err := a.bootDrift(ctx); err != nil || len(drift) == 0 {
			return err
		}
	}
	if err := a.Store.Begin(); err != nil { // whatever comes of it, the daemon's apply ends it
		return err
	}
	if err := a.restoreEarlier(ctx); err != nil {
		return err
	}
	if err := errors.Join(a.Store.Sweep(time.Now()), a.Store.Mend(time.Now())); err != nil {
		log.G(ctx).WithError(err).Warn("the stage was not put in order")
	}
	if err := a.take(ctx); err != nil {
		return err
	}
	a.at("taken")
	return a.bootApply(ctx)
}

// restoreEarlier ends the transaction of an earlier run before the runtime starts.
func (a *Apply) restoreEarlier(ctx context.Context) error {
	j, err := a.Store.Journal()
	if err != nil || j == nil {
		return err
	}
	if j.Step == stage.StepVerified {
		batch, err := a.entriesOf(j)
		if err != nil {
			return err
		}
		return a.conclude(ctx, j, batch)
	}
	log.G(ctx).WithField("entries", j.Entries).WithField("step", j.Step).Info("putting back what an earlier run left")
	if err := a.restore(ctx, j); err != nil {
		return err
	}
	return a.Store.End()
}

func (a *Apply) bootApply(ctx context.Context) error {
	batch, err := a.bootBatch(ctx)
	if err != nil {
		return err
	}
	if len(batch) == 0 {
		return a.bootRepair(ctx)
	}
	batch, changes, err := a.check(ctx, batch)
	if err != nil || len(batch) == 0 {
		return err
	}
	if len(changes) == 0 {
		return a.settle(ctx, batch, "nothing had to be changed", nil)
	}
	j, err := a.write(ctx, batch, changes)
	if err != nil {
		return a.wait(ctx, j, batch, fmt.Errorf("write changes: %w", err))
	}
	a.at("written")
	return a.leaveUnverified(ctx, j, batch)
}

func (a *Apply) leaveUnverified(ctx context.Context, j *stage.Journal, batch []stage.Entry) error {
	for _, e := range batch {
		r := stage.NewResult(e, stage.Unverified, "applied at boot, the runtime has not answered yet")
		if err := a.Store.Publish(r); err != nil {
			return err
		}
	}
	log.G(ctx).WithField("entries", ids(batch)).WithField("at", time.Now()).Info("applied at boot")
	return a.Store.Advance(j, stage.StepUnverified)
}

// bootBatch is every install that is not to be tried alone.
func (a *Apply) bootBatch(ctx context.Context) ([]stage.Entry, error) {
	acting, err := a.Store.Acting()
	if err != nil {
		return nil, err
	}
	if acting, err = a.dropOutdated(ctx, acting); err != nil {
		return nil, err
	}
	var batch []stage.Entry
	for _, e := range acting {
		switch {
		case e.Attempts >= stage.MaxAttempts:
			if err := a.reject(ctx, e, fmt.Sprintf("it was tried %d times and the node did not get to verify it", e.Attempts)); err != nil {
				return nil, err
			}
		case e.Op == stage.Install && !e.Alone:
			batch = append(batch, e)
		}
	}
	return batch, nil
}
