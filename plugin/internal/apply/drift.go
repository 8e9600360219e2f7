package apply

import (
	"context"

	"github.com/containerd/log"

	"quiesce/plugin/stage"
)

// Drift lists the files that are not as the live entries want them: somebody has written them anew.
func (a *Apply) Drift(ctx context.Context) (files []string, err error) {
	if acting, err := a.Store.Acting(); err != nil || len(acting) > 0 {
		return nil, err
	}
	d, err := a.draft(ctx, nil)
	for _, c := range d.changes {
		files = append(files, c.Path)
	}
	return files, err
}

// repair brings back what somebody has overwritten, with a restart: an operator asked for it.
func (a *Apply) repair(ctx context.Context, t Ticket) error {
	changes, err := a.settled(ctx)
	if err != nil || len(changes) == 0 {
		return err
	}
	log.G(ctx).WithField("files", paths(changes)).Info("repairing what somebody has overwritten")
	return a.carry(ctx, t, nil, changes)
}

// bootDrift is what is to be repaired before the runtime starts. A repair that went wrong is not tried again until
// something is applied: whoever overwrites the config at each boot is not fought.
func (a *Apply) bootDrift(ctx context.Context) ([]stage.Change, error) {
	if why := a.Store.GaveUp(); why != "" {
		log.G(ctx).WithField("reason", why).Warn("what somebody has overwritten is not repaired: it went wrong the last time")
		return nil, nil
	}
	return a.settled(ctx)
}

// settled plans for what is live alone. While an entry is on its way, nobody knows whose its files are.
func (a *Apply) settled(ctx context.Context) ([]stage.Change, error) {
	acting, err := a.Store.Acting()
	if err != nil || len(acting) > 0 {
		return nil, err
	}
	return a.plan(ctx, nil)
}

func (a *Apply) bootRepair(ctx context.Context) error {
	changes, err := a.bootDrift(ctx)
	if err != nil || len(changes) == 0 {
		return err
	}
	log.G(ctx).WithField("files", paths(changes)).Info("repairing what somebody has overwritten")
	j, err := a.write(ctx, nil, changes)
	if err != nil {
		return a.wait(ctx, j, nil, err)
	}
	return a.leaveUnverified(ctx, j, nil)
}

func paths(changes []stage.Change) (names []string) {
	for _, c := range changes {
		names = append(names, c.Path)
	}
	return names
}
