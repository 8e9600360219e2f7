package apply

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/plugin/internal/containerd/config"
	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

// machine is a node without containerd: its runtime reads the config when it is restarted, as containerd does.
type machine struct {
	t        *testing.T
	dir      string
	loaded   []string // handlers of the running runtime; nil: it does not answer
	process  int
	restarts int
	pods     []*node.Pod
	broken   func(handlers []string) error // what a runtime with these handlers fails with
	hidden   string                        // a handler that never shows up
	ended    []cri.Ended
	running  []cri.Process
	fences   []bool
	crashAt  int                    // the step at which apply dies; 0: never
	dying    func(step string) bool // the same, by its name; nil: never
	steps    []string
	on       map[string]func() // what happens at a step
	version  string            // of the runtime; empty: the newest
	exe      []byte            // what shims begin with; empty: the head of a program
}

var errCrash = errors.New("crash")

// step dies at the step that is due, and again at every later one: what is deferred does nothing either.
func (m *machine) step(name string) {
	m.steps = append(m.steps, strings.ReplaceAll(name, m.dir, ""))
	if f := m.on[name]; f != nil {
		f()
	}
	if m.dying != nil && m.dying(name) {
		m.crashAt = 1
	}
	if m.crashAt > 0 && len(m.steps) >= m.crashAt {
		panic(errCrash)
	}
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return newMachineIn(t, ramDir(t))
}

func newMachineIn(t *testing.T, dir string) *machine {
	t.Helper()
	m := &machine{t: t, dir: dir, process: 100, loaded: []string{"runc"}}
	check(t, errors.Join(stage.Create(m.path("stage")), os.MkdirAll(m.path("shims"), 0o755), os.MkdirAll(m.path("etc"), 0o755)))
	check(t, os.WriteFile(m.path("etc/config.toml"), []byte(original), 0o644))
	return m
}

// ramDir is a directory in memory, where there is one: thousands of transactions sync their files.
func ramDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "quiesce-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	return dir
}

const original = "# mine\nversion = 3\n\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\n  default_runtime_name = 'runc'\n"

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// twoThatFail has the installs i and k staged, of which the runtime starts with neither.
func twoThatFail(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.broken = func(hs []string) error {
		if len(hs) > 1 {
			return errors.New("does not start")
		}
		return nil
	}
	m.stage(manifest(stage.Install, "i", "a"))
	m.stage(manifest(stage.Install, "k", "b"))
	return m
}

func (m *machine) path(p string) string { return filepath.Join(m.dir, p) }

func (m *machine) apply() (*Apply, func()) {
	store, err := stage.Open(m.path("stage"))
	check(m.t, err)
	store.Steps(m.step)
	return &Apply{
		Store: store, Unit: m, CRI: m, Step: m.step, Config: m.path("etc/config.toml"), Shims: m.path("shims"),
		Rules: node.Rules{Paths: []string{"/"}, Undecided: time.Minute, Stuck: time.Hour},
		Fence: func(_ context.Context, up bool) error {
			m.fences = append(m.fences, up)
			return nil
		},
		Verify: time.Second, Look: 300 * time.Millisecond,
		Version: func(context.Context, string) (string, error) { return m.version, nil },
	}, func() { check(m.t, store.Close()) }
}

// run applies everything, as the gate would allow it.
func (m *machine) run() error {
	a, done := m.apply()
	defer done()
	pending, err := a.Store.Pending()
	check(m.t, err)
	return a.Run(context.Background(), Ticket{Ready: ids(pending), Issued: time.Now()})
}

func (m *machine) stage(man stage.Manifest) {
	m.t.Helper()
	in, err := stage.OpenInbox(m.path("stage/inbox"))
	check(m.t, err)
	defer in.Close()
	exe := m.exe
	if exe == nil {
		exe = program(m.t)
	}
	_, err = in.Stage(context.Background(), man, func(int) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(slices.Concat(exe, []byte(cmp.Or(man.Owner.Pod, man.ID))))), nil // each entry has a shim of its own
	}, nil)
	check(m.t, err)
}

// program is the head of a real program of this machine, without sections and segments.
func program(t *testing.T) []byte {
	t.Helper()
	f, err := os.Open("/proc/self/exe")
	check(t, err)
	defer f.Close()
	head := make([]byte, 64)
	_, err = io.ReadFull(f, head)
	check(t, err)
	for _, field := range [][2]int{{32, 48}, {56, 58}, {60, 64}} { // e_phoff and e_shoff, e_phnum, e_shnum and e_shstrndx (elf(5))
		clear(head[field[0]:field[1]])
	}
	return head
}

func manifest(op stage.Op, id string, handlers ...string) stage.Manifest {
	m := stage.Manifest{Schema: stage.Schema, ID: id, Op: op, Created: time.Now()}
	for _, h := range handlers {
		d := stage.Handler{Name: h}
		if op == stage.Install {
			d.Shim = "containerd-shim-x-v1"
		}
		m.Handlers = append(m.Handlers, d)
	}
	if op == stage.Install {
		m.Files = []stage.File{{Name: "containerd-shim-x-v1", Mode: 0o755}}
	}
	return m
}

func (m *machine) phase(id string) (stage.Phase, string) {
	rs, err := stage.Results(m.path("stage/results"))
	check(m.t, err)
	for _, r := range rs {
		if r.ID == id {
			return r.Phase, r.Reason
		}
	}
	return "", ""
}

// onDisk is what a restart would load.
func (m *machine) onDisk() []string {
	c, err := config.Read(config.Place{Root: m.path("etc/config.toml"), Version: m.version})
	check(m.t, err)
	hs, err := c.Handlers()
	check(m.t, err)
	names := []string{"runc"}
	for _, h := range hs {
		names = append(names, h.Name)
	}
	slices.Sort(names)
	return names
}

func (m *machine) Process(context.Context) (systemd.Process, error) {
	m.step("process")
	return systemd.Process{Invocation: "x", PID: m.process}, nil
}

func (m *machine) Restart(context.Context) (before, after systemd.Process, err error) {
	m.step("restart")
	m.restarts++
	m.process++
	m.loaded = m.onDisk()
	if m.broken != nil && m.broken(m.loaded) != nil {
		err = m.broken(m.loaded)
		m.loaded = nil
	}
	m.step("restart done")
	return systemd.Process{PID: m.process - 1}, systemd.Process{PID: m.process}, err
}

func (m *machine) Runtime(ctx context.Context) (cri.Runtime, error) {
	if m.loaded == nil {
		return cri.Runtime{}, errors.New("no answer")
	}
	hs := slices.DeleteFunc(slices.Clone(m.loaded), func(h string) bool { return h == m.hidden })
	return cri.Runtime{Ready: true, Handlers: hs}, ctx.Err()
}

func (m *machine) Answers(context.Context) bool { return m.loaded != nil }
func (m *machine) Reconnect()                   {}

func (m *machine) List(context.Context) ([]*node.Pod, error) {
	return m.pods, nil
}

func (m *machine) Processes(context.Context) ([]cri.Process, error) {
	if m.loaded == nil {
		return nil, errors.New("no answer")
	}
	return m.running, nil
}

func (m *machine) Ended(_ context.Context, ids map[string]bool) ([]cri.Ended, error) {
	return slices.DeleteFunc(slices.Clone(m.ended), func(e cri.Ended) bool { return !ids[e.Container] }), nil
}

func (m *machine) String() string {
	return fmt.Sprintf("loaded %v, on disk %v, %d restarts", m.loaded, m.onDisk(), m.restarts)
}
