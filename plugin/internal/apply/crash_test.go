package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quiesce/plugin/stage"
)

// settled checks that nothing of a transaction is left: every entry lies in cur or bad and its result says so, there is
// no journal and no file half written, and the runtime runs with what is on disk.
func (m *machine) settled(name string) {
	m.t.Helper()
	if !slices.Equal(m.loaded, m.onDisk()) {
		m.t.Errorf("%s: a mixture: %v", name, m)
	}
	store, err := stage.Open(m.path("stage"))
	check(m.t, err)
	defer store.Close()
	if j, err := store.Journal(); err != nil || j != nil {
		m.t.Errorf("%s: the journal is left: %+v, %v", name, j, err)
	}
	if store.Interrupted() {
		m.t.Errorf("%s: another apply would have to end it", name)
	}
	pending, err := store.Pending()
	check(m.t, err)
	current, err := store.Current()
	check(m.t, err)
	rejected, err := store.Rejected()
	check(m.t, err)
	if len(pending) > 0 {
		m.t.Errorf("%s: entries %v are not settled", name, ids(pending))
	}
	for _, e := range current {
		if p, _ := m.phase(e.ID); p != e.Phase() {
			m.t.Errorf("%s: entry %s is in cur, its result says %q", name, e.ID, p)
		}
	}
	for _, e := range rejected {
		if p, _ := m.phase(e.ID); p != stage.Rejected {
			m.t.Errorf("%s: entry %s is in bad, its result says %q", name, e.ID, p)
		}
	}
	check(m.t, filepath.WalkDir(m.dir, func(p string, d fs.DirEntry, err error) error {
		if young := filepath.Dir(p); strings.HasPrefix(d.Name(), ".quiesce-") && young != m.path("stage/store") && young != m.path("stage/results") {
			m.t.Errorf("%s: left half written: %s", name, p)
		}
		return err
	}))
}

// dies runs apply and tells whether the crash came.
func (m *machine) dies(run func() error) (died bool) {
	defer func() {
		m.crashAt = 0
		if r := recover(); r != nil {
			if r != any(errCrash) {
				panic(r)
			}
			died = true
		}
	}()
	check(m.t, run())
	return false
}

// strides is how many steps to go on at a time: one with CHAOS=all, else a random number, of CHAOS_SEED.
func strides(t *testing.T) func() int {
	t.Helper()
	if os.Getenv("CHAOS") == "all" {
		return func() int { return 1 }
	}
	seed, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = 1130
	}
	t.Logf("CHAOS_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	return func() int { return 1 + r.IntN(45) }
}

// story is what apply dies in the middle of.
type story struct {
	stage func(m *machine)
	end   []string // the handlers at the end
}

var stories = map[string]story{
	"two installs and a removal": {func(m *machine) {
		m.stage(manifest(stage.Install, "i", "a"))
		m.stage(manifest(stage.Install, "k", "b"))
		m.stage(manifest(stage.Remove, "r", "old"))
	}, []string{"a", "b", "runc"}},
	"a bad one of two": {func(m *machine) {
		m.broken = func(hs []string) error {
			if slices.Contains(hs, "bad") {
				return errors.New("does not start")
			}
			return nil
		}
		m.stage(manifest(stage.Install, "i", "a"))
		m.stage(manifest(stage.Install, "k", "bad"))
	}, []string{"a", "old", "runc"}},
	"the last is removed": {func(m *machine) { m.stage(manifest(stage.Remove, "r", "old")) }, []string{"runc"}},
}

// ways are what may happen after the crash before the next apply.
var ways = map[string]func(*machine){
	"again":                  func(*machine) {},
	"the runtime restarts":   func(m *machine) { m.process++; m.reload() },
	"boot":                   func(m *machine) { m.boot() },
	"boot, crash, then boot": func(m *machine) { m.boot(); m.boot() },
}

// reload is a start of the runtime by somebody else.
func (m *machine) reload() {
	if m.loaded = m.onDisk(); m.broken != nil && m.broken(m.loaded) != nil {
		m.loaded = nil
	}
}

// TestCrashAnywhere lets apply die at each of its steps, every change of a file among them, and then ends what it left.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for name, s := range stories {
		for way, after := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				at, next := 1, strides(t)
				for ; ; at += next() {
					m := newMachine(t)
					m.stage(manifest(stage.Install, "old", "old"))
					check(t, m.run())
					s.stage(m)
					m.steps, m.crashAt = nil, at
					if !m.dies(m.run) {
						break
					}
					where := fmt.Sprintf("dead at step %d, %s", at, m.steps[at-1])
					after(m)
					for range stage.MaxAttempts {
						check(t, m.run())
					}
					if !slices.Equal(m.loaded, s.end) {
						t.Errorf("%s: %v, want %v", where, m, s.end)
					}
					m.settled(where)
					check(t, os.RemoveAll(m.dir))
				}
				t.Logf("%d steps", at)
			})
		}
	}
}

// TestCrashAtBoot lets the apply before the runtime's start die at each of its steps.
func TestCrashAtBoot(t *testing.T) {
	t.Parallel()
	next := strides(t)
	for _, again := range []bool{false, true} {
		for at := 1; ; at += next() {
			m := newMachine(t)
			m.stage(manifest(stage.Install, "old", "old"))
			check(t, m.run())
			m.stage(manifest(stage.Install, "i", "a"))
			m.stage(manifest(stage.Remove, "r", "old"))
			m.process, m.steps, m.crashAt = 0, nil, at
			a, done := m.apply()
			died := m.dies(func() error { return a.Boot(context.Background()) })
			done()
			if !died {
				break
			}
			where := fmt.Sprintf("dead at step %d, %s, booted again: %v", at, m.steps[at-1], again)
			if m.process = 200; again {
				m.boot()
			}
			m.reload()
			for range stage.MaxAttempts {
				check(t, m.run())
			}
			if want := []string{"a", "runc"}; !slices.Equal(m.loaded, want) {
				t.Errorf("%s: %v, want %v", where, m, want)
			}
			m.settled(where)
			check(t, os.RemoveAll(m.dir))
		}
	}
}
