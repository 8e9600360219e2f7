package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quiesce/plugin/stage"
)

// fails says which sets of handlers a runtime does not start with.
type fails func(has func(handler string) bool) bool

// tryAll applies installs of the handlers as one batch, and checks that those live that can live beside the earlier ones,
// that the others are rejected with a reason, and that it took no more restarts than allowed.
func tryAll(t *testing.T, name string, handlers []string, bad fails) (restarts int) {
	t.Helper()
	m := newMachine(t)
	broken := func(hs []string) bool { return bad(func(h string) bool { return slices.Contains(hs, h) }) }
	m.broken = func(hs []string) error {
		if broken(hs) {
			return errors.New("does not start with " + strings.Join(hs, " "))
		}
		return nil
	}
	for _, h := range handlers {
		m.stage(manifest(stage.Install, "i"+h, h))
	}
	check(t, m.run())
	live := []string{"runc"}
	if all := append(slices.Clone(handlers), "runc"); !broken(all) {
		live = all
	} else {
		for _, h := range handlers {
			if !broken(append(slices.Clone(live), h)) {
				live = append(live, h)
			}
		}
	}
	slices.Sort(live)
	if !slices.Equal(m.loaded, live) || !slices.Equal(m.onDisk(), live) {
		t.Errorf("%s: %v, want %v", name, m, live)
	}
	for _, h := range handlers {
		want := stage.Rejected
		if slices.Contains(live, h) {
			want = stage.IsLive
		}
		if p, reason := m.phase("i" + h); p != want || p == stage.Rejected && !strings.Contains(reason, "rolled back: does not start with ") {
			t.Errorf("%s: entry i%s is %s (%s), want %s", name, h, p, reason, want)
		}
	}
	m.settled(name)
	if limit := len(handlers) + 2; m.restarts > limit {
		t.Errorf("%s: %d restarts, allowed are %d", name, m.restarts, limit)
	}
	return m.restarts
}

// TestRestartsOfABatch tries every subset of bad entries among up to five, and every set of entries of which any two, or
// only all together, are bad.
func TestRestartsOfABatch(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d", "e"}
	for n := 1; n <= len(all); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			most := 0
			for bits := range 1 << n {
				var set []string
				for i, h := range all[:n] {
					if bits>>i&1 == 1 {
						set = append(set, h)
					}
				}
				count := func(has func(string) bool) (c int) {
					for _, h := range set {
						if has(h) {
							c++
						}
					}
					return c
				}
				kinds := map[string]fails{"each of": func(has func(string) bool) bool { return count(has) > 0 }}
				if len(set) > 1 {
					kinds["all of"] = func(has func(string) bool) bool { return count(has) == len(set) }
				}
				if len(set) > 2 {
					kinds["any two of"] = func(has func(string) bool) bool { return count(has) > 1 }
				}
				for kind, bad := range kinds {
					most = max(most, tryAll(t, fmt.Sprintf("bad is %s %v", kind, set), all[:n], bad))
				}
			}
			t.Logf("%d entries: at most %d restarts", n, most)
		})
	}
}

// TestRestartsWithRemovals: what cannot be taken away stays, while the runtime is down too.
func TestRestartsWithRemovals(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.stage(manifest(stage.Install, "old", "x", "y"))
	check(t, m.run())
	m.restarts = 0
	m.broken = func(hs []string) error {
		if slices.Contains(hs, "a") || !slices.Contains(hs, "x") {
			return errors.New("does not start")
		}
		return nil
	}
	m.stage(manifest(stage.Install, "ia", "a"))
	m.stage(manifest(stage.Remove, "rx", "x"))
	m.stage(manifest(stage.Install, "ib", "b"))
	m.stage(manifest(stage.Remove, "ry", "y"))
	check(t, m.run())
	m.want([]string{"b", "runc", "x"}, 5)
	m.wantPhase("ia", stage.Rejected, "rolled back")
	m.wantPhase("rx", stage.Rejected, "rolled back")
	m.wantPhase("ib", stage.IsLive, "")
	m.wantPhase("ry", stage.Removed, "")
	m.settled("with removals")
}
