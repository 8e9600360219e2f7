package apply

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// TestARuntimeThatReadNewFilesBeforeTheyWerePutBack is restarted: it came up by itself between writing and putting off.
func TestARuntimeThatReadNewFilesBeforeTheyWerePutBack(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "i", "a"))
	m.pods = []*node.Pod{job(node.Mount{Host: "/", Writable: true})}
	m.on = map[string]func(){"written": func() { m.process++; m.reload() }}
	if err := m.run(); !errors.Is(err, ErrDeferred) {
		t.Fatalf("got %v, want it put off", err)
	}
	m.want([]string{"runc"}, 1)
	m.wantOriginal()
	m.on, m.pods = nil, nil
	check(t, m.run())
	m.want([]string{"a", "runc"}, 2)
	m.settled("put off, then applied")
}

// TestSIGTERM anywhere: what stops apply is no fault of the entries, and the next run ends it.
func TestSIGTERM(t *testing.T) {
	for _, at := range []string{"written", "restart noted", "frozen", "restarted", "came back", "files restored", "restart owed"} {
		t.Run(at, func(t *testing.T) {
			m := newMachine(t)
			if at == "files restored" || at == "restart owed" {
				m.broken = func([]string) error {
					if m.restarts == 1 {
						return errors.New("does not start this once")
					}
					return nil
				}
			}
			m.stage(manifest(stage.Install, "i", "a"))
			m.stage(manifest(stage.Install, "k", "b"))
			ctx, cancel := context.WithCancel(t.Context())
			m.on = map[string]func(){at: cancel}
			a, done := m.apply()
			err := a.Run(ctx, Ticket{Ready: []string{"i", "k"}})
			done()
			m.on = nil
			t.Logf("it ended with %v", err)
			for range stage.MaxAttempts {
				check(t, m.run())
			}
			m.settled("stopped at " + at)
			for _, id := range []string{"i", "k"} {
				m.wantPhase(id, stage.IsLive, "")
			}
		})
	}
}

// TestARollbackThatFailsKeepsItsJournal although the restart of an earlier one is owed: paying that would end it.
func TestARollbackThatFailsKeepsItsJournal(t *testing.T) {
	m := twoThatFail(t)
	undo, away := m.path("stage/store/undo"), m.path("stage/store/undo-away")
	m.on = map[string]func(){"restart done": func() {
		if m.restarts == 3 { // k, alone
			check(t, os.Rename(undo, away))
		}
	}}
	if err := m.run(); err == nil {
		t.Fatal("the rollback worked")
	}
	a, done := m.apply()
	if j, err := a.Store.Journal(); err != nil || j == nil || m.restarts != 3 {
		t.Errorf("journal %+v, %v, after %d restarts", j, err, m.restarts)
	}
	done()
	m.on = nil
	check(t, errors.Join(os.RemoveAll(undo), os.Rename(away, undo)))
	for range stage.MaxAttempts {
		check(t, m.run())
	}
	m.wantPhase("i", stage.Rejected, "rolled back")
	m.wantPhase("k", stage.Rejected, "rolled back")
	m.wantOriginal()
	m.settled("at last")
}

// dieAt lets apply die at the named step.
func (m *machine) dieAt(step string) {
	m.t.Helper()
	m.on = map[string]func(){step: func() { m.crashAt = 1 }}
	if !m.dies(m.run) {
		m.t.Fatalf("it did not come to %q: %v", step, m.steps)
	}
	m.on = nil
}

// An entry whose last try dies when the runtime already runs with it is live: it is not rejected with its files on the host.
func TestTheLastTryDiesAfterItsRestart(t *testing.T) {
	for _, step := range []string{"verified", "settled", "journal ended"} {
		t.Run(step, func(t *testing.T) {
			m := newMachine(t)
			m.stage(manifest(stage.Install, "i", "a"))
			for range stage.MaxAttempts - 1 {
				m.dieAt("journal opened")
			}
			m.dieAt(step)
			check(t, m.run())
			if want := []string{"a", "runc"}; !slices.Equal(m.loaded, want) || m.restarts != 1 {
				t.Errorf("%v after %d restarts, want %v after one", m, m.restarts, want)
			}
			m.settled(step)
		})
	}
}

// A shim half placed by an apply that died goes with the next try.
func TestAShimHalfPlaced(t *testing.T) {
	for _, step := range []string{"create", "fill", "rename", "sync"} {
		t.Run(step, func(t *testing.T) {
			m := newMachine(t)
			m.stage(manifest(stage.Install, "i", "a"))
			m.dying = func(at string) bool { return strings.HasPrefix(at, step+" "+m.path("shims/")) }
			if !m.dies(m.run) {
				t.Fatalf("it did not come there: %v", m.steps)
			}
			m.dying = nil
			check(t, m.run())
			m.wantPhase("i", stage.IsLive, "")
			m.settled("died at " + step)
		})
	}
}

// Copies of a journal that was never written go, also when no transaction follows.
func TestCopiesOfNoJournal(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "old", "old"))
	check(t, m.run())
	left := m.path("stage/store/undo")
	check(t, errors.Join(os.MkdirAll(left, 0o700), os.WriteFile(left+"/.quiesce-x", nil, 0o600)))
	m.stage(manifest(stage.Remove, "r", "other"))
	check(t, m.run())
	if _, err := os.Stat(left); err == nil {
		t.Error("the copies are still there")
	}
	m.settled("copies")
}

// What could not be put in order is tried again, and is said.
func TestAResultThatCannotBeWritten(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "i", "a"))
	m.dieAt("settled")
	store, err := stage.Open(m.path("stage"))
	check(t, err)
	current, err := store.Current()
	check(t, errors.Join(err, store.Close()))
	result := m.path("stage/results/" + current[0].ID + ".json")
	check(t, errors.Join(os.Remove(result), os.Mkdir(result, 0o755)))
	if err := m.run(); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(m.path("stage/store/running")); err != nil {
		t.Errorf("nobody will look again: %v", err)
	}
	check(t, os.Remove(result))
	check(t, m.run())
	m.settled("again")
}
