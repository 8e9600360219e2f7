package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quiesce/plugin/stage"
)

// leave freezes one cgroup as a process that then died would leave it; change is made to the list.
func leave(t *testing.T, change func(*list)) (dir, at string) {
	t.Helper()
	at, dir = container(t), t.TempDir()
	sleeper(t, at)
	freezeAs(t, dir, at, change)
	return dir, at
}

func freezeAs(t *testing.T, dir, at string, change func(*list)) {
	t.Helper()
	c, err := openCgroup(place{Path: at, Version: versionOf(at)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.files.Close()
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	l := &list{Window: "w", Boot: boot, Owner: Process{PID: 1 << 30, Start: "1"}, Until: math.MaxInt64}
	l.Cgroups = []member{{place: c.place, Inode: c.Inode, Container: "c", Name: "ns/pod/c"}}
	change(l)
	tree, err := stage.OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	if err := errors.Join(l.write(tree), c.begin(), c.await(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func listed(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, listName))
	return err == nil
}

func TestRecover(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*list)
		state  string
		list   bool
	}{
		"owner dead":          {func(*list) {}, thawed, false},
		"owner's PID reused":  {func(l *list) { l.Owner = Process{PID: os.Getpid(), Start: "1"} }, thawed, false},
		"owner alive":         {func(l *list) { l.Owner = Self() }, frozen, true},
		"alive, limit over":   {func(l *list) { l.Owner, l.Until = Self(), 1 }, thawed, false},
		"another boot":        {func(l *list) { l.Boot = "x" }, frozen, false}, // not ours: that boot's are gone
		"another cgroup":      {func(l *list) { l.Cgroups[0].Inode++ }, frozen, false},
		"cgroup gone":         {func(l *list) { l.Cgroups[0].Path += "/gone" }, frozen, false},
		"one of several gone": {func(l *list) { l.Cgroups = append([]member{{place: place{"/gone", 1}}}, l.Cgroups...) }, thawed, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, at := leave(t, c.change)
			for range 2 {
				if err := Recover(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
				if stateOf(t, at) != c.state || listed(dir) != c.list {
					t.Errorf("it is %s, listed: %v; want %s, %v", stateOf(t, at), listed(dir), c.state, c.list)
				}
			}
		})
	}
}

func TestThawAll(t *testing.T) {
	dir, at := leave(t, func(l *list) { l.Owner = Self() })
	if err := ThawAll(t.Context(), dir, "another"); err != nil || stateOf(t, at) != frozen || !listed(dir) {
		t.Errorf("another window's: %v", err)
	}
	if err := ThawAll(t.Context(), dir, ""); err != nil || stateOf(t, at) != thawed || listed(dir) {
		t.Errorf("all: %v", err)
	}
}

func TestDamagedList(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, listName), []byte(`{"window":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Recover(t.Context(), dir); err == nil {
		t.Error("no error")
	}
}

func TestListKeepsEverything(t *testing.T) {
	want := list{Window: "w", Boot: "b", Owner: Process{1, "2"}, Until: 3, Cgroups: []member{{place{"/p", 2}, 4, "c", "n", Process{5, "6"}}}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got list
	if err := json.Unmarshal(b, &got); err != nil || got.Cgroups[0] != want.Cgroups[0] || got.Window != "w" || got.Until != 3 {
		t.Errorf("%s: %+v, %v", b, got, err)
	}
}

func TestGuard(t *testing.T) {
	self := func(l *list) { l.Owner = Self() }
	t.Run("limit", func(t *testing.T) {
		dir, at := leave(t, self)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Guard(ctx, Guarded{Dir: dir, Window: "w", Owner: Self(), Limit: 10 * time.Millisecond}, func() {})
		}()
		for range 2 {
			for stateOf(t, at) != thawed || listed(dir) {
				<-time.After(5 * time.Millisecond)
			}
			freezeAs(t, dir, at, self) // an owner that was stopped meanwhile, and goes on
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		dir, at := leave(t, self)
		ctx, cancel := context.WithCancel(t.Context())
		err := Guard(ctx, Guarded{Dir: dir, Window: "w", Owner: Self(), Limit: time.Hour}, cancel)
		if err != nil || stateOf(t, at) != thawed {
			t.Error(err)
		}
	})
	t.Run("owner dead from the start", func(t *testing.T) {
		dir, at := leave(t, self)
		err := Guard(t.Context(), Guarded{Dir: dir, Window: "w", Owner: Process{PID: os.Getpid(), Start: "1"}, Limit: time.Hour}, func() { t.Error("ready") })
		if err != nil || stateOf(t, at) != thawed {
			t.Error(err)
		}
	})
}
