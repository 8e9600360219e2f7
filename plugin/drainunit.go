package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/daemon"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/hook"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/internal/upgrade"
)

// drainUnit is this program's unit.
const drainUnit = "quiesce-drain.service"

// drainUnitStart is ExecStart of quiesce-drain.service: the node is in use again. It never fails: a unit that did not
// start does not drain when it stops.
func drainUnitStart(ctx context.Context, cfg Config) error {
	extending, done := context.WithCancel(ctx)
	defer done()
	go extend(extending, time.Now().Add(afterStart(cfg)))
	err := withDrainer(cfg, func(d *drainer) error {
		if st, err := d.store.Load(); err == nil && st.Active(drain.Boot()) && st.Trigger == daemon.GateTrigger {
			return nil // apply restarts the runtime for just that drain; the gate ends it
		}
		_, err := d.end(ctx)
		return err
	})
	if err != nil {
		log.G(ctx).WithError(err).Error("the state of the last drain was not ended")
	}
	return nil
}

// afterStart is how long the hooks after the start may take together.
func afterStart(cfg Config) (all time.Duration) {
	for _, h := range cfg.Drain.policy().Hooks {
		if h.When == drain.PostStart {
			all += h.Timeout + 15*time.Second
		}
	}
	return all
}

// end ends the state of a drain, takes the fence down and starts a kubelet that the drain stopped. ended is nil if
// there was nothing to end.
func (d *drainer) end(ctx context.Context) (ended *drain.State, err error) {
	unlock, err := d.lock(ctx, brief)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unlock() }()
	st, err := d.store.Load()
	if err != nil || st == nil || st.Phase == drain.Ended {
		return nil, err
	}
	if st.Phase == drain.Draining {
		st.Notes = append(st.Notes, "cut off: it was over before it was done")
	}
	st.Phase, st.EndedAt = drain.Ended, time.Now().UTC()
	if err := d.store.Save(st); err != nil {
		return nil, err
	}
	tell, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := d.daemon.Drain(tell); err != nil {
		log.G(ctx).WithError(err).Warn("the daemon was not told; it looks by itself every second")
	}
	if st.Kubelet != "" && st.Boot == drain.Boot() {
		if kerr := (systemd.Unit{Name: st.Kubelet}).Begin(ctx); kerr != nil {
			err = fmt.Errorf("start the kubelet that the drain stopped: %w", kerr)
		}
	}
	if st.AfterStart(ctx, d.policy, hook.Runner{}) {
		err = errors.Join(err, d.store.Save(st))
	}
	return st, err
}

// drainUnitStop is ExecStop of quiesce-drain.service.
func drainUnitStop(ctx context.Context, cfg Config) error {
	due, stopping, why := decide(ctx, cfg)
	log.G(ctx).WithField("drain", due).WithField("why", why).Info("the drain unit stops")
	if !due {
		return nil
	}
	r := request{sel: drain.Selection{All: true}, trigger: why, binding: true, deadline: cfg.Drain.Deadline.Duration, patience: cfg.Drain.Deadline.Duration + time.Minute}
	if stopping { // a shutdown may be cancelled while the daemon drains for it
		r.still = func(ctx context.Context) bool {
			m, err := look(ctx)
			return err != nil || m.State == "stopping"
		}
	} else {
		r.kubelet = cfg.Drain.Kubelet
	}
	extending, done := context.WithCancel(ctx)
	defer done()
	go extend(extending, time.Now().Add(r.deadline+2*time.Minute))
	return withDrainer(cfg, func(d *drainer) error {
		st, err := d.run(ctx, r, func(context.Context, *drain.Engine) func() { return func() {} })
		if st != nil {
			logSummary(ctx, st)
		}
		return err
	})
}

// drainUnitStopPost is its ExecStopPost: it drains if ExecStop has not, or not to its end. A stop that comes while the unit
// starts skips ExecStop, although the unit's result is success.
func drainUnitStopPost(ctx context.Context, cfg Config) error {
	ran, err := systemd.Unit{Name: drainUnit}.StopRan(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Warn("whether ExecStop ran is not known")
	}
	if ran && os.Getenv("SERVICE_RESULT") == "success" { // systemd.exec(5)
		return nil
	}
	return drainUnitStop(ctx, cfg)
}

// extend keeps systemd from cutting the drain off before its own deadline.
func extend(ctx context.Context, end time.Time) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for time.Now().Before(end) {
		systemd.Extend(ctx, 30*time.Second)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// decide tells from systemd's state and jobs whether pods are to be stopped: only if the system goes down, or the
// runtime's own unit is being stopped for good. A restart of the runtime, and whatever is done to quiesce, is none of it.
func decide(ctx context.Context, cfg Config) (due, stopping bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, err := look(ctx)
	switch {
	case err != nil:
		return false, false, "systemd does not answer: " + err.Error()
	case m.State == "stopping":
		return true, true, shutdownTrigger
	}
	units := append([]string{cfg.Unit}, cfg.Drain.StopsWith...)
	i := slices.IndexFunc(units, func(u string) bool { return m.Jobs[u] == "stop" })
	if i < 0 {
		return false, false, fmt.Sprintf("%s is not being stopped (its job: %q)", strings.Join(units, " or "), m.Jobs[cfg.Unit])
	}
	if who := upgrade.Running(ctx); who != "" && !cfg.Drain.DuringUpgrade {
		return false, false, "packages are being changed: " + who
	}
	return true, false, "stop of " + units[i]
}

// look asks systemd, again if the first answer does not come.
func look(ctx context.Context) (m systemd.Manager, err error) {
	for range 3 {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		var lerr error
		m, lerr = systemd.Look(try)
		cancel()
		if lerr == nil {
			return m, nil
		}
		err = errors.Join(err, lerr)
	}
	return m, err
}

// logSummary leaves the result in the journal.
func logSummary(ctx context.Context, st *drain.State) {
	l := log.G(ctx).WithField("pods", len(st.Pods)).WithField("took", st.Took(time.Now()).Round(time.Millisecond))
	for o, n := range st.Summary() {
		l = l.WithField(string(o), n)
	}
	l.Info("drained")
	for _, line := range st.Lines() {
		if line.Container.Outcome.Hard() {
			log.G(ctx).WithField("pod", line.Pod.String()).WithField("container", line.Container.Name).Warn(string(line.Container.Outcome))
		}
	}
}
