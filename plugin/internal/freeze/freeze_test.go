package freeze

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/node"
)

// runtime is a containerd with one pod, whose containers are real processes in cgroups of version 2. Each container's
// cgroup has its id, which is the cgroup's own name in the test.
type runtime struct {
	pod   node.Pod
	tasks []cri.Task
	lists int
	look  func(r *runtime) // called with every list
}

func (r *runtime) List(context.Context) ([]*node.Pod, error) {
	r.lists++
	if r.look != nil {
		r.look(r)
	}
	p := r.pod
	p.Containers = append([]node.Container{}, p.Containers...)
	return []*node.Pod{&p}, nil
}

func (r *runtime) Tasks(context.Context) ([]cri.Task, error) { return r.tasks, nil }

// add runs a container.
func (r *runtime) add(t *testing.T, dir string) {
	t.Helper()
	id := filepath.Base(dir)
	r.pod.Containers = append(r.pod.Containers, node.Container{ID: id, Name: id, State: node.Running})
	r.tasks = append(r.tasks, cri.Task{Container: id, PID: sleeper(t, dir)})
}

type guards struct {
	started, stopped int
	err              error
}

func (g *guards) start(context.Context, string, Process, time.Duration) (func(context.Context) error, error) {
	g.started++
	return func(context.Context) error { g.stopped++; return nil }, g.err
}

func newFreezer(t *testing.T, r *runtime) (*Freezer, *guards) {
	t.Helper()
	g := &guards{}
	return &Freezer{Dir: t.TempDir(), Runtime: r, Rules: DefaultRules(), Limit: 4 * time.Second, Guard: g.start}, g
}

func stateOf(t *testing.T, dir string) string {
	t.Helper()
	g, err := openCgroup(place{Path: dir, Version: versionOf(dir)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.files.Close()
	s, err := g.state()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func versionOf(dir string) int {
	if _, err := os.Stat(dir + "/cgroup.freeze"); err == nil {
		return 2
	}
	return 1
}

func TestFreezeAndThaw(t *testing.T) {
	r := &runtime{}
	a, b := container(t), container(t)
	r.add(t, a)
	f, g := newFreezer(t, r)
	held, released := 0, 0
	f.Inhibit = func(context.Context) (func() error, error) {
		held++
		return func() error { released++; return nil }, nil
	}
	r.look = func(r *runtime) {
		if r.lists == 3 {
			r.add(t, b) // between freezing and the look that follows
		}
	}
	res, err := f.Freeze(t.Context())
	if err != nil || res.Protected != 2 || len(res.Unprotected) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if stateOf(t, a) != frozen || stateOf(t, b) != frozen {
		t.Error("not frozen")
	}
	if err := Recover(t.Context(), f.Dir); err != nil || stateOf(t, a) != frozen {
		t.Errorf("Recover thawed the window of a live process: %v", err)
	}
	res, err = f.Thaw(t.Context())
	if err != nil || res.Protected != 2 || res.Longest <= 0 || res.Early {
		t.Errorf("%+v, %v", res, err)
	}
	again, err := f.Thaw(t.Context())
	if err != nil || again.Protected != 0 || g.started != 1 || g.stopped != 1 || held != 1 || released != 1 {
		t.Errorf("a second Thaw: %+v, %v; guards %+v, inhibitors %d, %d", again, err, g, held, released)
	}
	if stateOf(t, a) != thawed || stateOf(t, b) != thawed {
		t.Error("not thawed")
	}
	if left, err := os.ReadDir(f.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestPutOff(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, r *runtime, f *Freezer, dir string)
		want  string
	}{
		"paused": {func(_ *testing.T, r *runtime, _ *Freezer, _ string) { r.tasks[0].Paused = true }, "a task is paused: ns/pod/"},
		"new containers all the time": {func(t *testing.T, r *runtime, _ *Freezer, _ string) {
			r.look = func(r *runtime) { r.add(t, container(t)) }
		}, "started all the time"},
		"an end that CRI never notices": {func(_ *testing.T, r *runtime, _ *Freezer, _ string) {
			r.look = func(r *runtime) {
				if r.lists > 1 {
					r.tasks = nil
				}
			}
		}, "which CRI does not know yet"},
		"a disk that takes no list": {func(t *testing.T, _ *runtime, f *Freezer, _ string) {
			f.Step = func(step string) {
				if step == "guarded" {
					if err := os.RemoveAll(f.Dir); err != nil {
						t.Error(err)
					}
				}
			}
		}, "freeze.json"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runtime{pod: node.Pod{Namespace: "ns", Name: "pod"}}
			dir := container(t)
			r.add(t, dir)
			f, g := newFreezer(t, r)
			f.Limit = 400 * time.Millisecond
			if strings.HasPrefix(name, "new") {
				f.Limit = 10 * time.Second
			}
			c.spoil(t, r, f, dir)
			_, err := f.Freeze(t.Context())
			if !errors.Is(err, ErrPutOff) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%v, want it put off: %q", err, c.want)
			}
			if stateOf(t, dir) != thawed || g.started != g.stopped {
				t.Errorf("it is %s, guards %+v", stateOf(t, dir), g)
			}
		})
	}
}

func TestForeignFreezeIsLeftAlone(t *testing.T) {
	r := &runtime{}
	dir := container(t)
	r.add(t, dir)
	c, err := openCgroup(place{Path: dir, Version: versionOf(dir)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.files.Close()
	if err := errors.Join(c.begin(), c.await(t.Context())); err != nil {
		t.Fatal(err)
	}
	f, _ := newFreezer(t, r)
	if _, err := f.Freeze(t.Context()); !errors.Is(err, ErrPutOff) || !strings.Contains(err.Error(), "frozen already") {
		t.Errorf("%v, want it put off", err)
	}
	if stateOf(t, dir) != frozen {
		t.Error("it was thawed")
	}
}

func TestUnprotected(t *testing.T) {
	shim := filepath.Join(t.TempDir(), "containerd-shim-x-v1")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(sleep)
	if err == nil {
		err = os.WriteFile(shim, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &runtime{pod: node.Pod{Namespace: "ns", Name: "pod"}}
	dir := container(t)
	r.add(t, dir)
	cmd := exec.CommandContext(t.Context(), shim, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if err := os.WriteFile(dir+"/cgroup.procs", fmt.Append(nil, cmd.Process.Pid), 0o644); err != nil {
		t.Fatal(err)
	}
	elsewhere := container(t) // a container whose process is in a cgroup of another name, as with a VM
	r.pod.Containers = append(r.pod.Containers, node.Container{ID: "of-a-vm", Name: "vm", State: node.Running})
	r.tasks = append(r.tasks, cri.Task{Container: "of-a-vm", PID: sleeper(t, elsewhere)})
	f, _ := newFreezer(t, r)
	res, err := f.Freeze(t.Context())
	all := strings.Join(res.Unprotected, "\n")
	if err != nil || res.Protected != 0 || !strings.Contains(all, "holds a shim, containerd-shim-x-v1") || !strings.Contains(all, "ns/pod/vm: find cgroup") {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := f.Thaw(t.Context()); err != nil || stateOf(t, dir) != thawed {
		t.Error(err)
	}
}

func TestWithoutGuardNothingIsFrozen(t *testing.T) {
	r := &runtime{}
	dir := container(t)
	r.add(t, dir)
	f, g := newFreezer(t, r)
	g.err = errors.New("no bus")
	res, err := f.Freeze(t.Context())
	if err != nil || res.Protected != 0 || len(res.Unprotected) != 1 || !strings.Contains(res.Unprotected[0], "no bus") {
		t.Errorf("%+v, %v", res, err)
	}
	if stateOf(t, dir) != thawed {
		t.Error("it is frozen")
	}
}
