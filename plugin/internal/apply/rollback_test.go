package apply

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"quiesce/plugin/internal/cri"
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

// TestALossIsNamedOnceWhateverBecomesOfTheEntries: a container ends in the first restart, and its exit code is lost.
func TestALossIsNamedOnceWhateverBecomesOfTheEntries(t *testing.T) {
	for _, tc := range []struct {
		name    string
		entries []string
		change  func(m *machine)
		rejects string
	}{
		{"it works", []string{"a"}, func(*machine) {}, ""},
		{"the runtime does not come back", []string{"bad"}, func(*machine) {}, "bad"},
		{"it comes back without the handler", []string{"a"}, func(m *machine) { m.hidden = "a" }, "a"},
		{"one of several is bad", []string{"a", "bad", "c"}, func(*machine) {}, ""},
		{"one of several is hidden", []string{"a", "b", "c"}, func(m *machine) { m.hidden = "b" }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			m.broken = func(hs []string) error {
				if slices.Contains(hs, "bad") {
					return errors.New("it does not come up")
				}
				return nil
			}
			tc.change(m)
			for _, h := range tc.entries {
				m.stage(manifest(stage.Install, "i-"+h, h))
			}
			m.loses("restart")
			check(t, m.run())
			a, done := m.apply()
			defer done()
			if r := a.Store.LastRestart(); r.AllLost != 1 {
				t.Errorf("%d exit codes were named lost in %d restarts: %+v", r.AllLost, m.restarts, r)
			}
			if tc.rejects == "bad" {
				rs, err := stage.Results(m.path("stage/results"))
				check(t, err)
				if len(rs) != 1 || !slices.Equal(rs[0].Lost, []string{"default/job/main"}) {
					t.Errorf("%+v", rs)
				}
			}
		})
	}
}

// TestCrashALossIsNamed: apply dies at each step after the restart in which an exit code was lost.
func TestCrashALossIsNamed(t *testing.T) {
	next := strides(t)
	for _, bad := range []bool{false, true} {
		steps := 0
		for ; ; steps += next() {
			m := newMachine(t)
			m.broken = func([]string) error {
				if bad && m.restarts == 1 {
					return errors.New("it does not come up")
				}
				return nil
			}
			m.stage(manifest(stage.Install, "i", "a"))
			m.loses("restart done")
			lose := m.on["restart done"]
			m.on["restart done"] = func() {
				if lose(); m.restarts == 1 {
					m.crashAt = len(m.steps) + steps
				}
			}
			if !m.dies(m.run) {
				break
			}
			at := m.steps[len(m.steps)-1]
			m.on = nil
			for range stage.MaxAttempts {
				check(t, m.run())
			}
			a, done := m.apply()
			if r := a.Store.LastRestart(); r.AllLost < 1 || r.AllLost > 1 && m.restarts < 3 { // who dies after he said it says it again
				t.Errorf("bad %v, died at %q: %d exit codes were named lost in %d restarts", bad, at, r.AllLost, m.restarts)
			}
			done()
		}
		if steps < 5 {
			t.Errorf("there are %d steps only", steps)
		}
	}
}

// loses lets a container that runs end at a step, and its exit code be lost.
func (m *machine) loses(step string) {
	job := exec.Command("sleep", "infinity")
	check(m.t, job.Start())
	m.running = []cri.Process{{Container: "c1", PID: job.Process.Pid}}
	m.on = map[string]func(){step: func() {
		if m.running == nil {
			return
		}
		_, _ = job.Process.Kill(), job.Wait()
		m.running, m.ended = nil, []cri.Ended{{Container: "c1", Pod: "default/job", Name: "main", Unknown: true}}
	}}
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
