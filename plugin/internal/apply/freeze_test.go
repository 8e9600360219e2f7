package apply

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/stage"
)

// freezer tells when it was called, in restarts of the machine.
type freezer struct {
	m     *machine
	err   error
	calls []string
}

func (f *freezer) Freeze(context.Context) (freeze.Result, error) {
	f.note("freeze")
	return freeze.Result{Protected: 3, Unprotected: []string{"a/b/c: why"}}, f.err
}

func (f *freezer) Thaw(context.Context) (freeze.Result, error) {
	f.note("thaw")
	return freeze.Result{Protected: 3, Longest: time.Second}, nil
}

func (f *freezer) note(call string) {
	f.calls = append(f.calls, call+[]string{" before", " after one", " after two"}[min(f.m.restarts, 2)])
}

// runFrozen applies one install with a freezer.
func runFrozen(t *testing.T, m *machine, f *freezer, now bool) error {
	t.Helper()
	m.stage(manifest(stage.Install, "i", "a"))
	a, done := m.apply()
	defer done()
	f.m, a.Freezer = m, f
	return a.Run(t.Context(), Ticket{Ready: []string{"i"}, Now: now, Issued: time.Now()})
}

func wantCalls(t *testing.T, f *freezer, want ...string) {
	t.Helper()
	if !slices.Equal(f.calls, want) {
		t.Errorf("calls %q, want %q", f.calls, want)
	}
}

func TestFrozenOverTheRestart(t *testing.T) {
	m, f := newMachine(t), &freezer{}
	check(t, runFrozen(t, m, f, false))
	m.wantPhase("i", stage.IsLive, "")
	wantCalls(t, f, "freeze before", "thaw after one")
	a, done := m.apply()
	defer done()
	if r := a.Store.LastRestart().Freeze; r.Containers != 3 || r.Longest != time.Second || len(r.Unprotected) != 1 {
		t.Errorf("recorded: %+v", r)
	}
}

func TestFreezingPutOff(t *testing.T) {
	m, f := newMachine(t), &freezer{err: freeze.ErrPutOff}
	err := runFrozen(t, m, f, false)
	if !errors.Is(err, ErrDeferred) || !errors.Is(err, freeze.ErrPutOff) {
		t.Errorf("%v, want it put off", err)
	}
	m.want([]string{"runc"}, 0)
	wantCalls(t, f, "freeze before")
	f.err = nil
	check(t, m.run())
	m.want([]string{"a", "runc"}, 1)
}

func TestAnOperatorIsNotPutOff(t *testing.T) {
	m, f := newMachine(t), &freezer{err: freeze.ErrPutOff}
	check(t, runFrozen(t, m, f, true))
	m.want([]string{"a", "runc"}, 1)
	wantCalls(t, f, "freeze before")
}

// TestOneWindowCoversTheRollback: as long as the runtime is down nothing is thawed.
func TestOneWindowCoversTheRollback(t *testing.T) {
	m, f := newMachine(t), &freezer{}
	m.broken = func(handlers []string) error {
		if slices.Contains(handlers, "a") {
			return errors.New("does not start")
		}
		return nil
	}
	check(t, runFrozen(t, m, f, false))
	m.wantPhase("i", stage.Rejected, "does not start")
	wantCalls(t, f, "freeze before", "thaw after two")
}

// TestTheRollbackHasItsOwnWindow when the runtime came back without the handler.
func TestTheRollbackHasItsOwnWindow(t *testing.T) {
	m, f := newMachine(t), &freezer{}
	m.hidden = "a"
	check(t, runFrozen(t, m, f, false))
	m.wantPhase("i", stage.Rejected, "does not have handler a")
	wantCalls(t, f, "freeze before", "thaw after one", "freeze after one", "thaw after two")
}
