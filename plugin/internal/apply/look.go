package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// lastLook makes sure, with new creations fenced off, that nobody is in flight; otherwise ErrDeferred.
func (a *Apply) lastLook(ctx context.Context, t Ticket, batch []stage.Entry) error {
	if t.Now || a.owed != nil && !a.CRI.Answers(ctx) {
		return nil // an operator's word; or a rollback's restart, which cannot make it worse
	}
	if err := a.Fence(ctx, true); err != nil {
		log.G(ctx).WithError(err).Info("no fence: the daemon does not answer")
	}
	ctx, cancel := context.WithTimeout(ctx, a.Look)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		wait, err := a.look(ctx, t, batch)
		if err != nil || wait == "" {
			return a.unfence(ctx, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return a.unfence(ctx, fmt.Errorf("%w: %s", ErrDeferred, wait))
		}
	}
}

func (a *Apply) unfence(ctx context.Context, err error) error {
	if err != nil {
		_ = a.Fence(context.WithoutCancel(ctx), false) // it ends by itself soon
	}
	return err
}

// look says what has to be waited for, briefly, or that the restart is put off.
func (a *Apply) look(ctx context.Context, t Ticket, batch []stage.Entry) (wait string, err error) {
	began := time.Now()
	pods, err := a.CRI.List(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrDeferred, err)
	}
	snap := node.Snapshot{Pods: pods, Listed: began}
	for _, i := range a.Rules.Installers(snap, began) {
		if !t.Forced && (!i.Undecided || !t.Undecided) {
			return "", fmt.Errorf("%w: installer in flight: %s (%s)", ErrDeferred, i.Pod, i.Why)
		}
	}
	users := snap.ByHandler()
	a.used = users
	for _, e := range batch {
		if (e.Op == stage.Remove || e.Drain) && anyUsed(e, users) {
			return "", fmt.Errorf("%w: pods use a handler of %s", ErrDeferred, e.ID)
		}
	}
	for _, p := range pods {
		if p.Creating {
			return "create in flight: " + p.String(), nil
		}
		for _, c := range p.Containers {
			if c.State == node.Created && node.Younger(c.Created, began, time.Minute) { // older ones never start (containerd#10437)
				return fmt.Sprintf("create in flight: container %s of %s", c.Name, p), nil
			}
		}
	}
	return "", nil
}
