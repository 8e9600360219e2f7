package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

// Unit is the runtime's unit.
type Unit interface {
	Process(ctx context.Context) (systemd.Process, error)
	Restart(ctx context.Context) (before, after systemd.Process, err error)
}

// Follower is a Unit whose runtime is restarted by somebody else as soon as a file of its config changes: files are changed
// last of all, and Restart waits for what comes of it.
type Follower interface {
	Mark(ctx context.Context) error // the files are about to change
}

// CRI is what the runtime tells.
type CRI interface {
	Runtime(ctx context.Context) (cri.Runtime, error)
	Answers(ctx context.Context) bool
	Reconnect()
	List(ctx context.Context) ([]*node.Pod, error)
	Processes(ctx context.Context) ([]cri.Process, error)
	Ended(ctx context.Context, ids map[string]bool) ([]cri.Ended, error)
}

// Fence keeps new containers from being created for a bounded time; an error means it could not be asked.
type Fence func(ctx context.Context, up bool) error

// Apply holds what a transaction needs.
type Apply struct {
	Store  *stage.Store
	Unit   Unit
	CRI    CRI
	Rules  node.Rules
	Fence  Fence
	Config string // path of the runtime's config file
	Binary string // the runtime's own program, which checks a config; empty: the library's loader alone, as the newest
	Shims  string // directory that shims are placed in

	KeepNRI  bool   // containerd's settings of NRI stay as they are
	Template string // what the config is made from at each start, which is edited instead; empty: nothing
	Dropins  string // the directory of drop-ins that somebody merges into the file Merged; empty: nobody does
	Merged   string
	Version  func(ctx context.Context, binary string) (string, error) // of the program; nil: it is asked

	Verify time.Duration // how long the runtime may take until it answers and everything is there
	Look   time.Duration // how long the last look waits for creations to end

	Freezer Freezer // nil: nothing is frozen

	Draining func(ctx context.Context) bool // tells whether a drain keeps the gate closed, as far as known; nil: none does

	late []stage.Change // that a Follower's restart begins with

	Step func(name string) // called between the steps, for tests; nil: nothing is

	faults error                  // of this host, that kept single entries from being taken
	window bool                   // something is frozen, or may be
	frozen freeze.Result          // of the last window
	owed   *debt                  // nil: no restart is owed
	used   map[string][]*node.Pod // by handler, as listed last
	ran    map[string]stage.Init  // by container, before the restarts whose losses are not all told yet
}

func (a *Apply) at(step string) {
	if a.Step != nil {
		a.Step(step)
	}
}

// Ticket is the gate's word that apply may run, and for what.
type Ticket struct {
	Ready     []string  `json:"ready"`               // entries that nothing keeps back
	Now       bool      `json:"now,omitempty"`       // the operator's override: whoever is in flight, all entries
	Undecided bool      `json:"undecided,omitempty"` // undecided pods were waited for long enough
	Forced    bool      `json:"forced,omitempty"`    // maxDefer has passed: installers in flight do not count
	Due       time.Time `json:"due,omitzero"`        // when the quiet period ends: until then apply only prepares
	Issued    time.Time `json:"issued"`
}

// ErrDeferred says that someone came in between, and that nothing was changed: the gate will open again.
var ErrDeferred = errors.New("put off")

// Run applies what the ticket allows. Entries that are rejected are no error: their results say so.
func (a *Apply) Run(ctx context.Context, t Ticket) (err error) {
	unlock, err := a.Store.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := a.Store.Begin(); err != nil {
		log.G(ctx).WithError(err).Warn("if this apply dies, nobody will know")
	}
	defer func() { err = errors.Join(err, a.finish(ctx, err)) }()
	a.at("locked")
	if err := errors.Join(a.Store.Sweep(time.Now()), a.Store.Mend(time.Now())); err != nil {
		a.faults = fmt.Errorf("put the stage in order: %w", err)
	}
	if err := a.recover(ctx, t); err != nil {
		return err
	}
	a.at("recovered")
	if err := a.take(ctx); err != nil {
		return err
	}
	a.at("taken")
	defer a.thaw(ctx) // one window covers a rollback's restart too
	err = a.applyAll(ctx, t)
	if err == nil && t.Now {
		err = a.repair(ctx, t)
	}
	return errors.Join(err, a.pay(ctx), a.faults)
}

func (a *Apply) applyAll(ctx context.Context, t Ticket) error {
	for {
		batch, err := a.next(ctx, t)
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := a.transact(ctx, t, batch); err != nil {
			return err
		}
	}
}

// finish leaves no fence, and tells installers what is live. After a fault the next run has to look again.
func (a *Apply) finish(ctx context.Context, fault error) error {
	ctx = context.WithoutCancel(ctx)
	_ = a.Fence(ctx, false) // without the daemon there is none
	pending, err := a.Store.Acting()
	if err != nil {
		return err
	}
	err = errors.Join(a.Store.PublishLive(pending), a.Store.PruneResults(), a.sweepShims(ctx))
	if fault != nil && !errors.Is(fault, ErrDeferred) || a.faults != nil {
		return err
	}
	return errors.Join(err, a.Store.Done())
}

// take copies everything staged out of the inbox, so that the order of entries is fixed.
func (a *Apply) take(ctx context.Context) error {
	staged, err := a.Store.Staged()
	if err != nil {
		return err
	}
	acting, err := a.Store.Acting()
	if err != nil {
		return err
	}
	if err := a.Store.PublishLive(slices.Concat(acting, staged)); err != nil { // before they leave the inbox: see Inbox.Hint
		return err
	}
	wait := map[string]bool{} // handlers of entries that could not be taken: later ones must not overtake them
	for _, e := range staged {
		if slices.ContainsFunc(e.Names(), func(h string) bool { return wait[h] }) {
			continue
		}
		if err := a.takeOne(ctx, e); err != nil {
			a.faults = errors.Join(a.faults, fmt.Errorf("take entry %q: %w", e.ID, err))
			for _, h := range e.Names() {
				wait[h] = true
			}
		}
	}
	return nil
}

// takeOne takes an entry, or rejects it. An error is the host's fault, and keeps no other entry back.
func (a *Apply) takeOne(ctx context.Context, e stage.Entry) error {
	e, err := a.Store.Take(ctx, e)
	if left, ok := errors.AsType[*stage.LeftError](err); ok { // it was dealt with all the same
		a.faults = errors.Join(a.faults, left)
		if _, rejected := errors.AsType[*stage.RejectedError](err); !rejected {
			return nil
		}
	}
	rejected, ok := errors.AsType[*stage.RejectedError](err)
	if !ok {
		return err
	}
	log.G(ctx).WithField("entry", e.ID).WithField("reason", rejected.Reason).Warn("entry rejected")
	return a.Store.Publish(stage.NewResult(e, stage.Rejected, rejected.Reason))
}

// next chooses the entries of the next transaction; none: everything is done that can be done now.
func (a *Apply) next(ctx context.Context, t Ticket) ([]stage.Entry, error) {
	acting, err := a.Store.Acting()
	if err != nil {
		return nil, err
	}
	if acting, err = a.dropOutdated(ctx, acting); err != nil {
		return nil, err
	}
	var users map[string][]*node.Pod
	var together, alone []stage.Entry
	for _, e := range acting {
		if !t.Now && !slices.Contains(t.Ready, e.ID) {
			continue
		}
		if e.Attempts >= stage.MaxAttempts {
			if err := a.reject(ctx, e, fmt.Sprintf("apply was interrupted %d times while it was at it", e.Attempts)); err != nil {
				return nil, err
			}
			continue
		}
		if e.Op == stage.Remove || e.Drain {
			if users == nil {
				if users, err = a.users(ctx); err != nil {
					return nil, err
				}
			}
			if anyUsed(e, users) {
				continue // the gate says so in status
			}
		}
		if e.Alone {
			alone = append(alone, e)
		} else {
			together = append(together, e)
		}
	}
	if len(together) == 0 && len(alone) > 0 {
		return alone[:1], nil
	}
	return together, nil
}

// dropOutdated settles the entries that later ones have made void.
func (a *Apply) dropOutdated(ctx context.Context, acting []stage.Entry) ([]stage.Entry, error) {
	current, err := a.Store.Current()
	if err != nil {
		return nil, err
	}
	void := stage.Outdated(slices.Concat(current, acting))
	var left []stage.Entry
	for _, e := range acting {
		if !slices.ContainsFunc(void, func(v stage.Entry) bool { return v.ID == e.ID }) {
			left = append(left, e)
			continue
		}
		log.G(ctx).WithField("entry", e.ID).Info("entry superseded")
		r := stage.NewResult(e, stage.Superseded, "a later entry names the same handlers")
		if err := errors.Join(a.Store.Publish(r), a.Store.Discard(e)); err != nil {
			return nil, err
		}
	}
	return left, nil
}

func (a *Apply) reject(ctx context.Context, e stage.Entry, reason string) error {
	log.G(ctx).WithField("entry", e.ID).WithField("reason", reason).Warn("entry rejected")
	if err := a.Store.Reject(e, reason); err != nil {
		return err
	}
	a.at("rejected")
	return a.Store.Publish(stage.NewResult(e, stage.Rejected, reason))
}

// settle makes a batch live. The result comes last: whoever reads it can rely on it.
func (a *Apply) settle(ctx context.Context, batch []stage.Entry, note string, lost []string) error {
	if len(batch) > 0 && a.Store.GaveUp() != "" {
		if err := a.Store.GiveUp(""); err != nil {
			return err
		}
	}
	for _, e := range batch {
		r := stage.NewResult(e, e.Phase(), note)
		r.Lost = lost
		if err := a.Store.Settle(e); err != nil {
			return err
		}
		a.at("settled")
		if err := a.Store.Publish(r); err != nil {
			return err
		}
		log.G(ctx).WithField("entry", e.ID).WithField("handlers", e.Names()).Info("entry " + string(r.Phase))
	}
	return nil
}
