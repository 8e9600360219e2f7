package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/stage"
)

// TestRests: a daemon that found nothing to do rests until anything at all changes, or the next look is due.
func TestRests(t *testing.T) {
	idle := gate.Decision{Phase: gate.Idle}
	for name, change := range map[string]func(d *Daemon, dir string) error{
		"nothing":  func(*Daemon, string) error { return nil },
		"staged":   func(_ *Daemon, dir string) error { return os.Mkdir(filepath.Join(dir, "inbox/new/a"), 0o700) },
		"taken":    func(_ *Daemon, dir string) error { return os.Mkdir(filepath.Join(dir, "store/act/a"), 0o700) },
		"held":     func(d *Daemon, _ string) error { return d.Store.SetHold("a test") },
		"result":   func(_ *Daemon, dir string) error { return os.WriteFile(filepath.Join(dir, "results/a"), nil, 0o600) },
		"no inbox": func(_ *Daemon, dir string) error { return os.RemoveAll(filepath.Join(dir, "inbox")) },
		"replaced": func(_ *Daemon, dir string) error {
			return os.Rename(filepath.Join(dir, "inbox"), filepath.Join(dir, "old"))
		},
		"drain": func(d *Daemon, _ string) error { return d.Drains.store.Save(&drain.State{Schema: drain.Schema}) },
		"NRI": func(d *Daemon, _ string) error {
			d.NRI = func() nri.Status { return nri.Status{Since: time.Now()} }
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := resting(t)
			now := time.Now().Add(2 * grain) // the rooms were made just now
			if d.rests(now) {
				t.Fatal("it rests before the first look")
			}
			d.settle(gate.Input{Now: now}, idle, false)
			if err := change(d, dir); err != nil {
				t.Fatal(err)
			}
			if rests, want := d.rests(now.Add(tick)), name == "nothing"; rests != want {
				t.Errorf("rests: %v, want %v", rests, want)
			}
			if d.rests(now.Add(lookEvery)) {
				t.Error("the next look is due, and it rests")
			}
		})
	}
}

// TestNoRest: these are not to be slept over.
func TestNoRest(t *testing.T) {
	now := time.Now().Add(2 * grain)
	for name, tc := range map[string]struct {
		dec  gate.Decision
		in   gate.Input
		busy bool
		at   time.Time
	}{
		"a blocker":         {dec: gate.Decision{Phase: gate.Idle, Blockers: []gate.Blocker{{Reason: gate.Draining}}}, at: now},
		"not idle":          {dec: gate.Decision{Phase: gate.Held}, at: now},
		"an installer":      {dec: gate.Decision{Phase: gate.Idle}, in: gate.Input{Installers: []node.Installer{{}}}, at: now},
		"work":              {dec: gate.Decision{Phase: gate.Idle}, busy: true, at: now},
		"a change just now": {dec: gate.Decision{Phase: gate.Idle}, at: now.Add(-2 * grain)}, // another may get the same date
	} {
		d, _ := resting(t)
		d.rests(tc.at)
		tc.in.Now = tc.at
		d.settle(tc.in, tc.dec, tc.busy)
		if d.rests(tc.at.Add(time.Millisecond)) {
			t.Errorf("%s: it rests", name)
		}
	}
}

func TestListDue(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		age, since time.Duration // of the list, and of NRI's present state
		connected  bool
		found      bool
		want       bool
	}{
		"NRI tells of every pod":   {age: restList, since: time.Hour, connected: true, found: true},
		"the safety net":           {age: restList + 1, since: time.Hour, connected: true, found: true, want: true},
		"something goes on":        {age: idleList + 1, since: time.Hour, connected: true, want: true},
		"without NRI":              {age: idleList + 1, since: time.Hour, found: true, want: true},
		"without NRI, a new list":  {age: idleList, since: time.Second, found: true},
		"a runtime that restarted": {age: 2, since: 1, connected: true, want: true},
	} {
		d := &Daemon{NRI: func() nri.Status { return nri.Status{Connected: tc.connected, Since: now.Add(-tc.since)} }}
		d.rest.found = tc.found
		if got := d.listDue(now.Add(-tc.age), now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func resting(t *testing.T) (*Daemon, string) {
	t.Helper()
	dir := t.TempDir()
	if err := stage.Create(dir); err != nil {
		t.Fatal(err)
	}
	store, err := stage.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	drained, err := drain.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drained.Close() })
	return &Daemon{Store: store, Drains: NewDrains(drained, drain.DefaultPolicy()), NRI: func() nri.Status { return nri.Status{} }}, dir
}
