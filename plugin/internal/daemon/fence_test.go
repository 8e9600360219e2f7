package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/stage"
)

// away is a runtime that does not answer.
type away struct{}

func (away) List(context.Context) ([]*node.Pod, error) { return nil, errors.New("no answer") }
func (away) Runtime(context.Context) (cri.Runtime, error) {
	return cri.Runtime{}, errors.New("no answer")
}
func (away) Reconnect() {}

// TestAnHeirsFence: a daemon that starts while apply runs, which may have had its last look, has a fence from the start, and
// takes it down when that apply has ended, although that told nobody. Where no apply runs there is none.
func TestAnHeirsFence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stage")
	check(t, stage.Create(dir))
	other, err := stage.Open(dir) // apply's
	check(t, err)
	defer other.Close()
	store, err := stage.Open(dir)
	check(t, err)
	defer store.Close()
	drained, err := drain.OpenStore(dir)
	check(t, err)
	defer drained.Close()
	daemon := func() *Daemon {
		return &Daemon{
			Store: store, State: node.NewState(), CRI: away{}, NRI: func() nri.Status { return nri.Status{} }, Fences: &Fence{},
			Drains: NewDrains(drained, drain.DefaultPolicy()), Notes: func() []string { return nil },
		}
	}
	none := daemon()
	none.Inherit()
	if err := none.Fences.Refuse(&node.Pod{}); err != nil {
		t.Errorf("no apply runs, and a container is refused: %v", err)
	}

	unlock, err := other.Lock()
	check(t, err)
	heir := daemon()
	heir.Inherit()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- heir.Run(ctx) }()
	for range 3 {
		heir.State.Signal() // it looks again
		await(t, func() bool { return len(heir.State.Wake()) == 0 })
		if heir.Fences.Refuse(&node.Pod{}) == nil {
			t.Error("apply runs, and a container may be created")
		}
	}
	check(t, unlock())
	await(t, func() bool { return heir.Fences.Refuse(&node.Pod{}) == nil })
	stop()
	check(t, <-ended)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits much shorter than a fence lasts.
func await(t *testing.T, cond func() bool) {
	t.Helper()
	limit := time.After(fenceTime / 2)
	for !cond() {
		select {
		case <-limit:
			t.Fatal("it did not come true")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestTheFenceIsThere when Fence returns: not before the plugin is registered, and what it let through before is started. Where
// NRI is away for good there is none to wait for.
func TestTheFenceIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status atomic.Pointer[nri.Status]
		status.Store(&nri.Status{Since: time.Now()})
		hurried := 0
		d := &Daemon{State: node.NewState(), Fences: &Fence{}, NRI: func() nri.Status { return *status.Load() }, Hurry: func() { hurried++ }}
		up := func() time.Duration {
			began := time.Now()
			d.Fence(t.Context(), true)
			if d.Fences.Refuse(&node.Pod{}) == nil {
				t.Error("nobody is refused")
			}
			return time.Since(began)
		}
		time.AfterFunc(3*time.Second, func() { status.Store(&nri.Status{Connected: true}) })
		if took := up(); took < 3*time.Second || took > 4*time.Second || hurried == 0 {
			t.Errorf("the plugin is registered after 3 s, the fence is there after %v, %d times hurried", took, hurried)
		}
		if took := up(); took != 0 {
			t.Errorf("registered: %v", took)
		}
		event := func(kind node.EventKind, id string) {
			d.State.Apply(node.Event{Kind: kind, Pod: &node.Pod{ID: "p"}, Container: &node.Container{ID: id}, At: time.Now()})
		}
		event(node.ContainerCreate, "c")
		time.AfterFunc(time.Second, func() { event(node.ContainerStart, "c") })
		if took := up(); took < time.Second || took > 2*time.Second {
			t.Errorf("a container that is started after 1 s: %v", took)
		}
		event(node.ContainerCreate, "d")
		if took := up(); took > creation {
			t.Errorf("a container that is never started: %v", took)
		}
		status.Store(&nri.Status{Since: time.Now()})
		if took := up(); took < nriGrace || took > nriGrace+time.Second {
			t.Errorf("NRI away for good: %v", took)
		}
		d.Fence(t.Context(), false)
		if err := d.Fences.Refuse(&node.Pod{}); err != nil {
			t.Error(err)
		}
	})
}
