package apply

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"quiesce/plugin/stage"
)

// TestADriftThatARepairCannotEnd: what somebody overwrites is brought back at boot, which the runtime cannot live with any
// more. It is put back, said, and not tried again until something is applied.
func TestADriftThatARepairCannotEnd(t *testing.T) {
	const theirs = "# theirs\nversion = 2\n"
	m := newMachine(t)
	m.version = "1.7.35"
	put := func() { check(t, os.WriteFile(m.path("etc/config.toml"), []byte(theirs), 0o644)) }
	put()
	m.stage(manifest(stage.Install, "i", "a"))
	check(t, m.run())
	m.want([]string{"a", "runc"}, 1)

	put()
	m.broken = func(hs []string) error {
		if slices.Contains(hs, "a") {
			return errors.New("does not start with a any more")
		}
		return nil
	}
	m.boot() // repairs, and the runtime does not come up
	check(t, m.run())
	m.want([]string{"runc"}, 2)
	m.wantTheirs(theirs)
	for range 3 {
		m.boot()
		check(t, m.run())
	}
	m.want([]string{"runc"}, 2) // nobody is fought
	m.wantTheirs(theirs)
	m.settled("given up")

	m.broken = nil
	m.stage(manifest(stage.Install, "k", "b"))
	check(t, m.run())
	m.want([]string{"a", "b", "runc"}, 3)
	if a, done := m.apply(); a.Store.GaveUp() != "" {
		t.Errorf("still given up: %s", a.Store.GaveUp())
	} else {
		done()
	}
	put()
	m.boot()
	check(t, m.run())
	m.want([]string{"a", "b", "runc"}, 3) // tried again
}

// wantTheirs checks that the config is somebody else's, that this is seen, and why it is left so.
func (m *machine) wantTheirs(theirs string) {
	m.t.Helper()
	if b, err := os.ReadFile(m.path("etc/config.toml")); err != nil || string(b) != theirs {
		m.t.Errorf("config is %q, %v", b, err)
	}
	a, done := m.apply()
	defer done()
	files, err := a.Drift(m.t.Context())
	if err != nil || !slices.Equal(files, []string{m.path("etc/config.toml")}) {
		m.t.Errorf("drift: %v, %v", files, err)
	}
	if why := a.Store.GaveUp(); !strings.Contains(why, "no answer") && !strings.Contains(why, "was not ready") {
		m.t.Errorf("given up because of %q", why)
	}
}
