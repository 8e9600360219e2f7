package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/process"
	"quiesce/plugin/stage"
)

// restart restarts the runtime once and verifies what came back. lost names the containers whose exit code it cost.
func (a *Apply) restart(ctx context.Context, t Ticket, j *stage.Journal, batch []stage.Entry) (lost []string, err error) {
	a.remember(ctx)
	j.Ran = a.ran
	if err := a.Store.Advance(j, stage.StepRestarting); err != nil {
		return nil, err
	}
	a.at("restart noted")
	if a.owed == nil || a.CRI.Answers(ctx) {
		if err := a.freeze(ctx, t.Now || a.owed != nil); err != nil {
			return nil, err
		}
	}
	a.at("frozen")
	defer a.thawIfStopped(ctx)
	began := time.Now()
	log.G(ctx).WithField("entries", ids(batch)).Info("restarting the runtime")
	limited, cancel := context.WithTimeoutCause(ctx, a.Verify, fmt.Errorf("the runtime was not back within %v", a.Verify))
	defer cancel()
	if err := a.restartUnit(limited); err != nil {
		return nil, a.record(ctx, began, batch, nil, err)
	}
	a.at("restarted")
	if err := a.comeBack(limited, batch); err != nil {
		return nil, a.record(ctx, began, batch, a.missed(ctx), err)
	}
	a.at("came back")
	lost, err = a.compare(limited, a.ran)
	a.at("compared")
	return lost, a.record(ctx, began, batch, lost, err)
}

// remember notes what runs before a restart, beside what ran before one after which the runtime could not be asked.
func (a *Apply) remember(ctx context.Context) {
	before, err := a.CRI.Processes(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Warn("containers cannot be compared over the restart")
		return
	}
	if a.ran == nil {
		a.ran = map[string]stage.Init{}
	}
	maps.Copy(a.ran, processes(before))
}

// missed names the containers whose exit code was lost, where nothing else depends on what compare says; none while the
// runtime does not answer.
func (a *Apply) missed(ctx context.Context) []string {
	if !a.CRI.Answers(ctx) {
		return nil
	}
	lost, err := a.compare(ctx, a.ran)
	if err != nil {
		log.G(ctx).WithError(err).Warn("containers cannot be compared over the restart")
	}
	return lost
}

// record keeps what the restart cost for status and metrics, and hands the error on.
func (a *Apply) record(ctx context.Context, began time.Time, batch []stage.Entry, lost []string, why error) error {
	r := stage.Restart{Began: began.UTC(), Took: time.Since(began), Entries: ids(batch), Lost: lost}
	r.Freeze = a.froze()
	if why != nil {
		r.Failed = why.Error()
	}
	log.G(ctx).WithField("took", r.Took).WithField("lost", len(lost)).Info("the runtime was restarted")
	a.count(ctx, r)
	return why
}

func (a *Apply) count(ctx context.Context, r stage.Restart) {
	if err := a.Store.PublishRestart(r); err != nil {
		log.G(ctx).WithError(err).Error("the restart is not counted") // no reason to roll back
	}
}

// restartUnit restarts the runtime's unit: it is done if systemd says so and the process is another one.
func (a *Apply) restartUnit(ctx context.Context) error {
	if f, ok := a.Unit.(Follower); ok && a.late != nil {
		changes := a.late
		a.late = nil
		if err := errors.Join(f.Mark(ctx), a.Store.Write(changes)); err != nil {
			return fmt.Errorf("write changes: %w", err)
		}
	}
	before, after, err := a.Unit.Restart(ctx)
	if err == nil && after.String() == before.String() {
		err = fmt.Errorf("systemd says that the runtime was restarted, but its process is the old one (PID %d)", after.PID)
	}
	return err
}

// comeBack waits until the runtime is ready with the handlers of the batch, and without those it removes.
func (a *Apply) comeBack(ctx context.Context, batch []stage.Entry) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a.CRI.Reconnect()
		rt, err := a.CRI.Runtime(ctx)
		if err == nil {
			a.thaw(ctx)
		}
		switch {
		case err == nil && rt.Ready:
			return a.handlers(ctx, rt, batch)
		case err == nil:
			err = fmt.Errorf("the runtime says it is not ready: %s", rt.Reason)
		default:
			err = fmt.Errorf("the runtime does not answer: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// handlers compares what the runtime lists with what the batch wants.
func (a *Apply) handlers(ctx context.Context, rt cri.Runtime, batch []stage.Entry) error {
	current, err := a.Store.Current()
	if err != nil {
		return err
	}
	live := stage.Live(slices.Concat(current, batch))
	if rt.Handlers == nil {
		return errors.New("the runtime does not tell its handlers")
	}
	var errs error
	for _, name := range sorted(live) {
		if !slices.Contains(rt.Handlers, name) {
			errs = errors.Join(errs, fmt.Errorf("the runtime runs, but does not have handler %s", name))
		}
	}
	for _, name := range gone(batch, live) {
		if slices.Contains(rt.Handlers, name) && !a.givenBack(ctx, name) {
			errs = errors.Join(errs, fmt.Errorf("the runtime still has handler %s", name))
		}
	}
	return errs
}

// givenBack tells whether somebody else has a handler now that was adopted.
func (a *Apply) givenBack(ctx context.Context, name string) bool {
	cfg, err := a.config(ctx)
	if err != nil {
		return false
	}
	_, foreign := cfg.Foreign(name)
	return foreign
}

// restartAgain brings the runtime back after a rollback. lost names the containers whose exit code that restart, or one
// before it, cost.
func (a *Apply) restartAgain(ctx context.Context) (lost []string, err error) {
	defer a.thaw(ctx)
	if a.CRI.Answers(ctx) {
		a.remember(ctx)
		_ = a.freeze(ctx, true) // this restart cannot be put off: what is not protected is named
	}
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, a.Verify, fmt.Errorf("the runtime was not back within %v", a.Verify))
	defer cancel()
	if err = a.restartUnit(limited); err == nil {
		err = a.comeBack(limited, nil)
	}
	lost = a.missed(ctx)
	return lost, a.record(ctx, began, nil, lost, err)
}

func processes(ps []cri.Process) map[string]stage.Init {
	out := map[string]stage.Init{}
	for _, p := range ps {
		if start := process.Start(p.PID); start != "" {
			out[p.Container] = stage.Init{PID: p.PID, Start: start}
		}
	}
	return out
}

// compare finds orphans, whose process lives although CRI says they ended, and lost exit codes; what has ended is taken
// from before, so that it is told once. Only orphans are an error: everything else happens on any node at any time.
func (a *Apply) compare(ctx context.Context, before map[string]stage.Init) (lost []string, err error) {
	if len(before) == 0 {
		return nil, nil
	}
	ids := map[string]bool{}
	for id := range before {
		ids[id] = true
	}
	for try := 0; ; try++ {
		ended, err := a.CRI.Ended(ctx, ids)
		if err != nil {
			return lost, fmt.Errorf("compare containers: %w", err)
		}
		var orphans []string
		for _, e := range ended {
			p, left := before[e.Container]
			switch {
			case !left:
			case process.Start(p.PID) == p.Start:
				orphans = append(orphans, fmt.Sprintf("container %s of %s (PID %d)", e.Name, e.Pod, p.PID))
			default:
				if delete(before, e.Container); e.Unknown {
					lost = append(lost, e.Pod+"/"+e.Name)
				}
			}
		}
		if len(orphans) == 0 {
			return lost, nil
		}
		if try == 10 { // a process that is about to end is none
			return lost, fmt.Errorf("the runtime lost sight of running containers: %s", strings.Join(orphans, ", "))
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return lost, context.Cause(ctx)
		}
	}
}
