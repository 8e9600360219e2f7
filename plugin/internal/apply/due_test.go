package apply

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"quiesce/plugin/stage"
)

// TestDue: before the quiet period ends nothing that the runtime sees has changed, and what comes in between puts it off.
func TestDue(t *testing.T) {
	for name, meanwhile := range map[string]func(m *machine){
		"nothing":       func(*machine) {},
		"another entry": func(m *machine) { m.stage(manifest(stage.Install, "j", "b")) },
		"a drain":       func(*machine) {},
		"a hold": func(m *machine) {
			s, err := stage.Open(m.path("stage"))
			check(m.t, err)
			check(m.t, s.SetHold("test"))
			check(m.t, s.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.stage(manifest(stage.Install, "i", "a"))
			a, done := m.apply()
			defer done()
			a.Draining = func(context.Context) bool { return name == "a drain" }
			due := time.Now().Add(500 * time.Millisecond)
			ended := make(chan error, 1)
			go func() {
				ended <- a.Run(context.Background(), Ticket{Ready: []string{"i"}, Due: due, Issued: time.Now()})
			}()
			until(t, func() bool { placed, _ := filepath.Glob(m.path("shims/*/*")); return len(placed) > 0 })
			m.wantOriginal()
			meanwhile(m)
			err := <-ended
			if time.Now().Before(due) {
				t.Error("it did not wait")
			}
			if name == "nothing" {
				check(t, err)
				m.want([]string{"a", "runc"}, 1)
				return
			}
			if !errors.Is(err, ErrDeferred) {
				t.Errorf("got %v, want it put off", err)
			}
			m.wantOriginal()
			if j, err := a.Store.Journal(); err != nil || j != nil {
				t.Errorf("journal %+v, %v", j, err)
			}
			if acting, err := a.Store.Acting(); err != nil || len(acting) != 1 || acting[0].Attempts != 0 {
				t.Errorf("acting %+v, %v", acting, err)
			}
		})
	}
}

func until(t *testing.T, cond func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-limit:
			t.Fatal("it did not come true")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestAnOwedRestartIsPaid although the transaction that would have paid it with its own is put off.
func TestAnOwedRestartIsPaid(t *testing.T) {
	m := twoThatFail(t)
	m.on = map[string]func(){"restart done": func() {
		if m.restarts == 1 {
			m.stage(manifest(stage.Install, "n", "c"))
		}
	}}
	a, done := m.apply()
	defer done()
	if err := a.Run(context.Background(), Ticket{Ready: []string{"i", "k"}, Due: time.Now(), Issued: time.Now()}); !errors.Is(err, ErrDeferred) {
		t.Errorf("got %v, want it put off", err)
	}
	m.want([]string{"runc"}, 2)
	m.wantOriginal()
	if j, err := a.Store.Journal(); err != nil || j != nil {
		t.Errorf("journal %+v, %v", j, err)
	}
	acting, err := a.Store.Acting()
	check(t, err)
	for _, e := range acting {
		if e.Attempts != 0 {
			t.Errorf("%s: %d attempts", e.ID, e.Attempts)
		}
	}
}
