package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quiesce/plugin/internal/containerd/config"
	"quiesce/plugin/stage"
)

// transact applies one batch. Its entries are live, rejected, or marked to be tried alone when it returns without error.
func (a *Apply) transact(ctx context.Context, t Ticket, batch []stage.Entry) error {
	batch, changes, err := a.check(ctx, batch)
	if err != nil || len(batch) == 0 {
		return err
	}
	if len(changes) == 0 {
		return a.settle(ctx, batch, "nothing had to be changed", nil)
	}
	return a.carry(ctx, t, batch, changes)
}

// carry brings changes about that were checked, with a restart.
func (a *Apply) carry(ctx context.Context, t Ticket, batch []stage.Entry, changes []stage.Change) error {
	j, err := a.prepare(ctx, batch, changes)
	if err == nil {
		if err := a.await(ctx, t); err != nil {
			return errors.Join(err, a.stepBack(j), a.forgive(batch))
		}
	}
	_, late := a.Unit.(Follower)
	if err == nil && !late {
		err = a.Store.Write(changes)
	}
	if err != nil {
		return a.wait(ctx, j, batch, fmt.Errorf("write changes: %w", err))
	}
	a.at("written")
	if err := a.lastLook(ctx, t, batch); err != nil {
		return errors.Join(err, a.putBack(ctx, j), a.forgive(batch))
	}
	a.at("looked")
	a.late = nil
	if late {
		a.late = changes
	}
	lost, err := a.restart(ctx, t, j, batch)
	switch {
	case errors.Is(err, ErrDeferred):
		return errors.Join(err, a.putBack(ctx, j), a.forgive(batch))
	case ctx.Err() != nil:
		return context.Cause(ctx) // apply is stopped, which is no fault of the entries: the next run ends it
	case err != nil:
		return a.undo(ctx, j, batch, err)
	}
	a.thaw(ctx)
	if err := a.paid(); err != nil { // by the same restart
		return err
	}
	j.Lost = lost
	if err := a.Store.Advance(j, stage.StepVerified); err != nil {
		return err
	}
	a.at("verified")
	return a.conclude(ctx, j, batch)
}

// stepBack ends a transaction that has written nothing. A restart that was owed before it still is.
func (a *Apply) stepBack(j *stage.Journal) error {
	if j.Owed {
		return a.owe(j)
	}
	return a.Store.End()
}

// conclude ends a transaction whose changes are there to stay. The journal goes last: at no time are files of an entry on
// the host that neither it nor cur knows.
func (a *Apply) conclude(ctx context.Context, j *stage.Journal, batch []stage.Entry) error {
	a.ran = nil
	if err := a.settle(ctx, batch, "", j.Lost); err != nil {
		return err
	}
	if err := a.Store.End(); err != nil {
		return err
	}
	a.at("journal ended")
	return nil
}

// check finds the changes that bring the batch about, and rejects the entries that cannot be.
func (a *Apply) check(ctx context.Context, batch []stage.Entry) ([]stage.Entry, []stage.Change, error) {
	changes, err := a.plan(ctx, batch)
	if err == nil {
		return batch, changes, nil
	}
	var good []stage.Entry
	for _, e := range batch { // one of them is the reason: each in turn on top of the good ones
		more, perr := a.plan(ctx, append(slices.Clone(good), e))
		if perr == nil {
			good, changes = append(good, e), more
			continue
		}
		if err := a.reject(ctx, e, perr.Error()); err != nil {
			return nil, nil, err
		}
	}
	return good, changes, nil
}

// plan renders the batch on top of what is live, and has the result checked by containerd.
func (a *Apply) plan(ctx context.Context, batch []stage.Entry) ([]stage.Change, error) {
	d, err := a.draft(ctx, batch)
	if err != nil || len(d.changes) == 0 {
		return nil, err
	}
	if err := config.Check(ctx, a.Binary, d.config, d.changes, d.want, gone(batch, d.live)); err != nil {
		return nil, err
	}
	out := make([]stage.Change, len(d.changes))
	for i, c := range d.changes {
		out[i] = stage.Change{Path: c.Path, Old: c.Old, New: c.New, Attr: stage.Attr{Mode: c.Mode, UID: c.UID, GID: c.GID}}
	}
	return out, nil
}

// draft is a plan that nobody has checked.
type draft struct {
	config  *config.Config
	want    []config.Handler
	live    map[string]stage.Entry
	changes []config.Change
}

func (a *Apply) draft(ctx context.Context, batch []stage.Entry) (d draft, err error) {
	current, err := a.Store.Current()
	if err != nil {
		return d, err
	}
	if d.config, err = a.config(ctx); err != nil {
		return d, err
	}
	d.live = stage.Live(slices.Concat(current, batch))
	for _, name := range sorted(d.live) {
		d.want = append(d.want, a.handler(name, d.live[name]))
	}
	d.changes, err = render(d.config, d.want)
	return d, err
}

// config reads the runtime's config as the containerd that is there does.
func (a *Apply) config(ctx context.Context) (*config.Config, error) {
	at := config.Place{Root: a.Config, Template: a.Template, Dropins: a.Dropins, Merged: a.Merged, NRI: !a.KeepNRI}
	ask := a.Version
	if ask == nil && a.Binary != "" {
		ask = config.Version
	}
	if ask != nil {
		var err error
		if at.Version, err = ask(ctx, a.Binary); err != nil {
			return nil, err
		}
	}
	return config.Read(at)
}

// render is cfg.Change, but a drop-in that differs in nothing but the entry it names stays as it is: the same install
// again is no change.
func render(cfg *config.Config, want []config.Handler) ([]config.Change, error) {
	installed, err := cfg.Handlers()
	if err != nil {
		return nil, err
	}
	kept := slices.Clone(want)
	for i, h := range kept {
		if at := slices.IndexFunc(installed, func(in config.Installed) bool { return in.Name == h.Name }); at >= 0 {
			kept[i].Entry = installed[at].Entry
		}
	}
	changes, err := cfg.Change(kept)
	if err != nil {
		return nil, err
	}
	for i, h := range kept {
		for _, c := range changes {
			if slices.ContainsFunc(installed, func(in config.Installed) bool { return in.Name == h.Name && in.Path == c.Path }) {
				kept[i].Entry = want[i].Entry // it changes anyway, and says by whom
			}
		}
	}
	return cfg.Change(kept)
}

// gone lists the handlers that a batch takes away.
func gone(batch []stage.Entry, live map[string]stage.Entry) (names []string) {
	for _, e := range batch {
		for _, h := range e.Handlers {
			if _, ok := live[h.Name]; !ok {
				names = append(names, h.Name)
			}
		}
	}
	return names
}

// write opens the journal and then changes the host. The journal it returns is valid with an error too.
func (a *Apply) write(ctx context.Context, batch []stage.Entry, changes []stage.Change) (*stage.Journal, error) {
	j, err := a.prepare(ctx, batch, changes)
	if err != nil {
		return j, err
	}
	return j, a.Store.Write(changes)
}

// prepare does all of write but the last step.
func (a *Apply) prepare(ctx context.Context, batch []stage.Entry, changes []stage.Change) (*stage.Journal, error) {
	j := &stage.Journal{Entries: ids(batch), Began: time.Now().UTC()}
	p, err := a.Unit.Process(ctx)
	if err != nil {
		return j, err
	}
	j.Process, j.Owed, j.Ran = p.String(), a.owed != nil, a.ran
	for i := range batch {
		e := &batch[i]
		if err := a.place(ctx, *e); err != nil {
			return j, err
		}
		e.Attempts, e.Reason = e.Attempts+1, ""
		r := stage.NewResult(*e, stage.Applying, "")
		if err := errors.Join(a.Store.Remember(*e), a.Store.Publish(r)); err != nil {
			return j, err
		}
	}
	a.at("placed")
	if err := a.Store.OpenJournal(j, changes); err != nil {
		return j, err
	}
	a.at("journal opened")
	return j, nil
}

// forgive takes back the count of an attempt that was put off before anything happened.
func (a *Apply) forgive(batch []stage.Entry) (errs error) {
	for _, e := range batch {
		e.Attempts = max(0, e.Attempts-1)
		errs = errors.Join(errs, a.Store.Remember(e))
	}
	return errs
}

// wait puts back what a fault of the host (a full disk, a read-only file system) left half done. It is not the entries'
// fault: they stay, and are tried again.
func (a *Apply) wait(ctx context.Context, j *stage.Journal, batch []stage.Entry, why error) error {
	err := errors.Join(why, a.putBack(ctx, j))
	for i := range batch {
		batch[i].Reason = why.Error()
		err = errors.Join(err, a.Store.Publish(stage.NewResult(batch[i], stage.Pending, "last try: "+why.Error())))
	}
	return errors.Join(err, a.forgive(batch))
}
