package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

func (m *machine) want(handlers []string, restarts int) {
	m.t.Helper()
	if !slices.Equal(m.loaded, handlers) || !slices.Equal(m.onDisk(), handlers) || m.restarts != restarts {
		m.t.Errorf("%v, want %v after %d restarts", m, handlers, restarts)
	}
}

func (m *machine) wantPhase(id string, phase stage.Phase, reason string) {
	m.t.Helper()
	if p, r := m.phase(id); p != phase || !strings.Contains(r, reason) {
		m.t.Errorf("entry %s is %s (%s), want %s (%s)", id, p, r, phase, reason)
	}
}

func (m *machine) wantOriginal() {
	m.t.Helper()
	if b, err := os.ReadFile(m.path("etc/config.toml")); err != nil || string(b) != original {
		m.t.Errorf("config is %q, %v", b, err)
	}
	if left, err := filepath.Glob(m.path("etc/conf.d/*")); err != nil || len(left) > 0 {
		m.t.Errorf("left over: %v, %v", left, err)
	}
}

func TestThreeEntriesAreOneRestart(t *testing.T) {
	m := newMachine(t)
	for _, h := range []string{"a", "b", "c"} {
		m.stage(manifest(stage.Install, "i"+h, h))
	}
	check(t, m.run())
	m.want([]string{"a", "b", "c", "runc"}, 1)
	m.wantPhase("ia", stage.IsLive, "")
	m.stage(manifest(stage.Remove, "ra", "a", "b", "c"))
	check(t, m.run())
	m.want([]string{"runc"}, 2)
	m.wantPhase("ra", stage.Removed, "")
	m.wantOriginal()
	if left, err := filepath.Glob(m.path("shims/*")); err != nil || len(left) > 0 {
		t.Errorf("shims left: %v, %v", left, err)
	}
}

func TestNoChangeIsNoRestart(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Remove, "r", "never-there"))
	check(t, m.run())
	m.want([]string{"runc"}, 0)
	m.wantPhase("r", stage.Removed, "nothing had to be changed")
}

func TestTheSameInstallAgainChangesNoByte(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "one", "a"))
	check(t, m.run())
	before, err := os.ReadFile(m.path("etc/conf.d/quiesce-a.toml"))
	check(t, err)
	for _, id := range []string{"two", "three"} {
		again := manifest(stage.Install, id, "a")
		again.Owner.Pod = "one" // the payload of one
		m.stage(again)
		check(t, m.run())
		m.want([]string{"a", "runc"}, 1)
		m.wantPhase(id, stage.IsLive, "nothing had to be changed")
	}
	if after, err := os.ReadFile(m.path("etc/conf.d/quiesce-a.toml")); err != nil || string(after) != string(before) {
		t.Errorf("the drop-in is %q, %v; it was %q", after, err, before)
	}
}

func TestALaterEntryMakesAnEarlierOneVoid(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "i", "a"))
	m.stage(manifest(stage.Remove, "r", "a"))
	check(t, m.run())
	m.want([]string{"runc"}, 0)
	m.wantPhase("i", stage.Superseded, "")
	m.wantPhase("r", stage.Removed, "")
}

func TestRollbackOfOne(t *testing.T) {
	for name, harm := range map[string]func(*machine){
		"the handler does not show up": func(m *machine) { m.hidden = "bad" },
		"the runtime does not answer": func(m *machine) {
			m.broken = func(hs []string) error {
				if slices.Contains(hs, "bad") {
					return errors.New("job failed")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			harm(m)
			m.stage(manifest(stage.Install, "x", "bad"))
			check(t, m.run())
			m.want([]string{"runc"}, 2)
			m.wantOriginal()
			m.wantPhase("x", stage.Rejected, "rolled back")
			if _, err := os.Stat(m.path("stage/store/bad/x/state.json")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheBadOneOfFive(t *testing.T) {
	m := newMachine(t)
	m.broken = func(hs []string) error {
		if slices.Contains(hs, "c") {
			return errors.New("containerd does not start with c")
		}
		return nil
	}
	for _, h := range []string{"a", "b", "c", "d", "e"} {
		m.stage(manifest(stage.Install, "i"+h, h))
	}
	check(t, m.run())
	if want := []string{"a", "b", "d", "e", "runc"}; !slices.Equal(m.loaded, want) || !slices.Equal(m.onDisk(), want) {
		t.Errorf("%v, want %v", m, want)
	}
	m.wantPhase("ic", stage.Rejected, "does not start with c")
	m.wantPhase("ie", stage.IsLive, "")
}

func TestAnEntryThatCannotBeRenderedIsRejectedWithoutARestartOfItsOwn(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "taken", "runc"))
	m.stage(manifest(stage.Install, "good", "a"))
	check(t, m.run())
	m.want([]string{"a", "runc"}, 1)
	m.wantPhase("taken", stage.Rejected, "runc")
	m.wantPhase("good", stage.IsLive, "")
}

func job(mounts ...node.Mount) *node.Pod {
	return &node.Pod{
		ID: "p", Namespace: "default", Name: "job", Ready: true, Created: time.Now().Add(-time.Hour), Labels: map[string]string{"job-name": "x"},
		Containers: []node.Container{{ID: "c", Name: "c", State: node.Running, Mounts: mounts, Created: time.Now().Add(-time.Hour)}},
	}
}

func TestTheLastLookPutsOff(t *testing.T) {
	for name, tc := range map[string]struct {
		pod    *node.Pod
		ticket Ticket
		off    bool
	}{
		"an installer":             {job(node.Mount{Host: "/", Writable: true}), Ticket{}, true},
		"an installer, forced":     {job(node.Mount{Host: "/", Writable: true}), Ticket{Forced: true}, false},
		"an installer, operator":   {job(node.Mount{Host: "/", Writable: true}), Ticket{Now: true}, false},
		"an ordinary Job":          {job(), Ticket{}, false},
		"a pod being made":         {&node.Pod{ID: "q", Ready: true, Creating: true, Created: time.Now()}, Ticket{}, true},
		"a container being made":   {&node.Pod{ID: "q", Ready: true, Containers: []node.Container{{State: node.Created, Created: time.Now()}}}, Ticket{}, true},
		"a container never starts": {&node.Pod{ID: "q", Ready: true, Containers: []node.Container{{State: node.Created}}}, Ticket{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.stage(manifest(stage.Install, "i", "a"))
			m.pods = []*node.Pod{tc.pod}
			a, done := m.apply()
			tc.ticket.Ready = []string{"i"}
			err := a.Run(context.Background(), tc.ticket)
			done()
			if tc.off {
				if !errors.Is(err, ErrDeferred) {
					t.Fatalf("got %v, want it put off", err)
				}
				m.want([]string{"runc"}, 0)
				m.wantOriginal()
				if m.fences[len(m.fences)-1] {
					t.Error("the fence stays up")
				}
				m.pods = nil
				check(t, m.run())
			} else {
				check(t, err)
			}
			m.want([]string{"a", "runc"}, 1)
		})
	}
}

func TestARemovalInUseStays(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "i", "a"))
	check(t, m.run())
	m.pods = []*node.Pod{{ID: "p", Handler: "a", Ready: true}}
	m.stage(manifest(stage.Remove, "r", "a"))
	a, done := m.apply()
	check(t, a.Run(context.Background(), Ticket{Now: true}))
	done()
	m.want([]string{"a", "runc"}, 1)
	if acting, err := os.ReadDir(m.path("stage/store/act")); err != nil || len(acting) != 1 {
		t.Errorf("act has %v, %v", acting, err)
	}
}

func TestOnlyOrphansRollBack(t *testing.T) {
	self := os.Getpid()
	for name, tc := range map[string]struct {
		running  []cri.Process
		ended    []cri.Ended
		handlers []string
		restarts int
		phase    stage.Phase
	}{
		"a container ended by itself": {[]cri.Process{{Container: "c", PID: 1 << 22}}, []cri.Ended{{Container: "c", Name: "n", Pod: "p"}}, []string{"a", "runc"}, 1, stage.IsLive},
		"an orphan":                   {[]cri.Process{{Container: "c", PID: self}}, []cri.Ended{{Container: "c", Name: "n", Pod: "p", Unknown: true}}, []string{"runc"}, 2, stage.Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.running, m.ended = tc.running, tc.ended
			a, done := m.apply()
			defer done()
			a.Verify = time.Minute
			m.stage(manifest(stage.Install, "i", "a"))
			check(t, a.Run(context.Background(), Ticket{Ready: []string{"i"}}))
			m.want(tc.handlers, tc.restarts)
			m.wantPhase("i", tc.phase, "")
		})
	}
}

func (m *machine) boot() {
	m.t.Helper()
	process := m.process
	m.process = 0
	a, done := m.apply()
	check(m.t, a.Boot(context.Background()))
	done()
	m.process = process + 1
	m.reload()
}

func TestBoot(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "i", "a"))
	m.stage(manifest(stage.Remove, "r", "b"))
	m.boot()
	m.wantPhase("i", stage.Unverified, "")
	m.want([]string{"a", "runc"}, 0)
	check(t, m.run())
	m.wantPhase("i", stage.IsLive, "")
	m.wantPhase("r", stage.Removed, "")
	m.want([]string{"a", "runc"}, 0)
}

func TestBootWithABadOne(t *testing.T) {
	m := newMachine(t)
	m.hidden = "a"
	m.stage(manifest(stage.Install, "i", "a"))
	m.boot()
	check(t, m.run())
	m.wantPhase("i", stage.Rejected, "rolled back")
	m.wantOriginal()
	m.want([]string{"runc"}, 1)
}

func TestBootsThatNeverGetVerified(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "i", "a"))
	for range stage.MaxAttempts + 1 {
		m.boot()
	}
	m.wantPhase("i", stage.Rejected, "tried")
	m.wantOriginal()
}

func TestBootLeavesARunningRuntimeAlone(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "i", "a"))
	a, done := m.apply()
	defer done()
	if err := a.Boot(context.Background()); !errors.Is(err, ErrRunning) {
		t.Errorf("got %v", err)
	}
	m.wantOriginal()
}
