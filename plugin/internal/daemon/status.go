package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/log"

	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// show makes the decision visible: status, results, log.
func (d *Daemon) show(ctx context.Context, in gate.Input, dec gate.Decision) {
	d.mu.Lock()
	last := d.decision
	d.decision = dec
	d.status.Gate = control.Gate{Phase: dec.Phase, Since: dec.Since, Blockers: dec.Blockers}
	d.status.Installers = installers(in)
	d.mu.Unlock()
	pending := d.pending(ctx, in, dec)
	d.mu.Lock()
	d.status.Pending = pending
	d.mu.Unlock()
	if dec.Phase != last.Phase {
		log.G(ctx).WithField("phase", dec.Phase).WithField("was", last.Phase).Info("gate")
	}
	was := map[string]bool{}
	for _, b := range last.Blockers {
		was[b.String()] = true
	}
	for _, b := range dec.Blockers {
		if !was[b.String()] {
			l := log.G(ctx).WithField("reason", b.Reason).WithField("who", b.Who).WithField("entry", b.Entry)
			if b.Stuck {
				l.Warn("the gate is kept closed by a stuck installer")
			} else {
				l.Info("the gate is kept closed")
			}
		}
	}
}

func installers(in gate.Input) (out []control.Installer) {
	for _, i := range in.Installers {
		out = append(out, control.Installer{Pod: i.Pod.String(), Why: i.Why, Since: i.Pod.Created, Stuck: i.Stuck})
	}
	return out
}

// pending publishes what entries wait for. While apply runs, it speaks for itself.
func (d *Daemon) pending(ctx context.Context, in gate.Input, dec gate.Decision) (out []stage.Result) {
	for _, e := range in.Pending {
		if e.Err != nil {
			continue // apply rejects it, with the reason
		}
		if e.Reason == "" {
			e.Reason = d.lastFault()
		}
		r := stage.NewResult(e, stage.Pending, reason(e, dec))
		out = append(out, r)
		if in.Running {
			continue
		}
		if err := d.Store.Publish(r); err != nil {
			log.G(ctx).WithError(err).Warn("a result was not written")
		}
	}
	return out
}

// reason lists what keeps an entry back.
func reason(e stage.Entry, dec gate.Decision) string {
	var all []string
	if e.Reason != "" {
		all = append(all, "last try: "+e.Reason)
	}
	for _, b := range dec.Blockers {
		if b.Entry == "" || b.Entry == e.ID {
			all = append(all, b.String())
		}
	}
	return strings.Join(all, "; ")
}

// known remembers the runtime's handlers, for those that nobody uses. Needs mu.
func (d *Daemon) known(names []string) {
	if names == nil {
		return
	}
	d.status.Handlers = nil
	for _, n := range names {
		d.status.Handlers = append(d.status.Handlers, control.Handler{Name: n})
	}
}

// Status is part of control.Backend.
func (d *Daemon) Status() control.Status {
	s := d.Figures()
	s.Notes = append(d.Notes(), s.Notes...)
	if d.Found != nil {
		s.Runtime.Found = d.Found()
	}
	return s
}

// Figures is part of control.Backend.
func (d *Daemon) Figures() control.Status {
	current, err := d.Store.Current()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	s.Version, s.NRI, s.Restart = d.Version, d.NRI(), d.Store.LastRestart()
	s.Drain = d.Drains.Status()
	s.Handlers = merge(s.Handlers, stage.Live(current), d.State.Snapshot().ByHandler())
	bad, berr := d.Store.Rejected()
	s.Rejected, s.AllBad = rejected(bad), len(bad)
	if err = errors.Join(err, berr); err != nil {
		s.Notes = append(s.Notes, "the stage cannot be read: "+err.Error())
	}
	if !s.NRI.Connected {
		s.Notes = append(s.Notes, "NRI is not connected: pods are seen by CRI lists only, up to 30 seconds late, and creations are not fenced off")
	}
	if d.unseen != "" {
		s.Notes = append(s.Notes, "stops are not observable: a container that is being stopped does not keep the gate closed ("+d.unseen+")")
	}
	return s
}

// shown is how many rejected entries the status has.
const shown = 10

func rejected(bad []stage.Entry) []stage.Result {
	slices.SortStableFunc(bad, func(a, b stage.Entry) int { return b.Staged.Compare(a.Staged) })
	out := []stage.Result{}
	for _, e := range bad[:min(len(bad), shown)] {
		out = append(out, stage.NewResult(e, stage.Rejected, e.Reason))
	}
	return out
}

func merge(known []control.Handler, live map[string]stage.Entry, users map[string][]*node.Pod) []control.Handler {
	by := map[string]*control.Handler{}
	at := func(name string) *control.Handler {
		if by[name] == nil {
			by[name] = &control.Handler{Name: name, Pods: []string{}}
		}
		return by[name]
	}
	for _, h := range known {
		at(h.Name)
	}
	for name, e := range live {
		at(name).Entry = e.ID
	}
	for name, pods := range users {
		h := at(name)
		for _, p := range pods {
			h.Pods = append(h.Pods, p.String())
		}
	}
	var out []control.Handler
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out
}

// Hold is part of control.Backend.
func (d *Daemon) Hold(who string) error {
	defer d.State.Signal()
	return d.Store.SetHold(who)
}
