package apply

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"quiesce/plugin/stage"
)

// TestARollbackIsNotedBeforeItsFirstFile: apply dies at each step of a rollback, and a runtime that was only slow comes up
// with the config that it had read. Its handler is not called live with its files gone.
func TestARollbackIsNotedBeforeItsFirstFile(t *testing.T) {
	steps := 0
	for ; ; steps++ {
		m := newMachine(t)
		m.broken = func([]string) error {
			if m.restarts == 1 {
				return errors.New("it is slow")
			}
			return nil
		}
		m.stage(manifest(stage.Install, "i", "a"))
		var read []string
		m.on = map[string]func(){"restart done": func() {
			if m.restarts == 1 {
				read, m.crashAt = m.onDisk(), len(m.steps)+1+steps
			}
		}}
		if !m.dies(m.run) || m.restarts > 1 {
			break // the rollback's restart is through with it
		}
		at := m.steps[len(m.steps)-1]
		m.on, m.loaded = nil, read
		for range stage.MaxAttempts {
			check(t, m.run())
		}
		m.settled(fmt.Sprintf("died at %q", at))
	}
	if steps < 5 {
		t.Errorf("the rollback has %d steps only", steps)
	}
}

// TestADebtEndsNoOtherJournal: what a rollback owes is paid with a restart, which ends its own journal. A transaction that a
// fault has stopped meanwhile keeps its journal, at whatever step that is, and waits for the next run without a restart.
func TestADebtEndsNoOtherJournal(t *testing.T) {
	for _, step := range []stage.Step{stage.StepWriting, stage.StepRestarting, stage.StepUnverified, stage.StepVerified, stage.StepOwed} {
		t.Run(string(step), func(t *testing.T) {
			m := newMachine(t)
			a, done := m.apply()
			defer done()
			unlock, err := a.Store.Lock()
			check(t, err)
			j := &stage.Journal{Entries: []string{"other"}, Began: time.Now()}
			check(t, errors.Join(a.Store.OpenJournal(j, nil), a.Store.Advance(j, step)))
			a.owed = &debt{}
			check(t, errors.Join(a.pay(context.Background()), unlock()))
			left, err := a.Store.Journal()
			check(t, err)
			if paid := step == stage.StepOwed; (left == nil) != paid || (a.owed == nil) != paid || (m.restarts == 1) != paid {
				t.Errorf("journal %+v, owed %+v, %d restarts", left, a.owed, m.restarts)
			}
		})
	}
}
