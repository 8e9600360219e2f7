package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// pod is a sandbox with one container. Its fields are the world's, under its mu.
type pod struct {
	id                string
	handler           string
	job, installer    bool
	creating, ready   bool // the sandbox
	made              bool // the container
	started, finished bool
	frozen            bool
	promised          bool // its exit code, over the last restart
	killed            bool // its shim was: it ends at once
	excused           bool // what is known of it is not what it is: a clock jumped, or no fence was there
	begun, madeAt     time.Time
	stamp             time.Duration // what the clock said is so much more
	end               time.Time
}

func (p *pod) running() bool { return p.started && !p.finished }

// seen is the pod as CRI lists it.
func (p *pod) seen() *node.Pod {
	at := p.begun.Add(p.stamp)
	n := &node.Pod{ID: p.id, Namespace: "default", Name: p.id, Handler: p.handler, Ready: p.ready, Creating: p.creating, Created: at}
	if p.job {
		n.Labels = map[string]string{"job-name": p.id}
	}
	if p.made {
		c := node.Container{ID: "c-" + p.id, Name: "main", Created: at, State: node.Created}
		switch {
		case p.finished:
			c.State, c.Finished = node.Exited, p.end.Add(p.stamp)
		case p.started:
			c.State = node.Running
		}
		if p.installer {
			c.Mounts = []node.Mount{{Host: "/", Writable: true}}
		}
		n.Containers = []node.Container{c}
	}
	return n
}

// tell is NRI: events get lost, come twice, and come late.
func (w *world) tell(kind node.EventKind, p *pod) {
	w.mu.Lock()
	d, times, late := w.daemon, w.rng.IntN(4), w.rng.IntN(4) == 0
	n := p.seen()
	w.mu.Unlock()
	if d == nil {
		return
	}
	e := node.Event{Kind: kind, Pod: n, At: time.Now()}
	if len(n.Containers) > 0 {
		e.Container = &n.Containers[0]
	}
	for range min(times, 2) {
		if !late {
			d.state.Apply(e)
			continue
		}
		go func() {
			pass(w.about(500 * time.Millisecond))
			d.state.Apply(e)
		}()
	}
}

// change changes a pod unless the node was booted since; ok tells whether that was possible while the runtime answers.
func (w *world) change(epoch int, f func()) (ok, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoch != epoch {
		return false, true
	}
	if w.answers {
		f()
	}
	return w.answers, false
}

// insist is the kubelet: it tries again until the runtime answers.
func (w *world) insist(epoch int, f func()) (gone bool) {
	for {
		ok, gone := w.change(epoch, f)
		if ok || gone {
			return gone
		}
		pass(w.about(300 * time.Millisecond))
	}
}

// run is the life of a pod; work, of an installer, is done in the middle.
func (w *world) run(p *pod, lives time.Duration, work func()) {
	w.mu.Lock()
	w.count++
	p.id = fmt.Sprintf("pod-%d", w.count)
	epoch := w.epoch
	w.mu.Unlock()
	if w.insist(epoch, func() { w.pods[p.id] = p; p.creating, p.begun = true, time.Now() }) {
		return
	}
	pass(w.about(150 * time.Millisecond))
	if w.insist(epoch, func() { p.creating, p.ready = false, true }) {
		return
	}
	w.tell(node.PodRun, p)
	pass(w.about(50 * time.Millisecond))
	if w.create(epoch, p) {
		return
	}
	w.tell(node.ContainerStart, p)
	if work != nil {
		pass(w.about(lives / 2))
		work()
	}
	pass(w.about(lives))
	if w.finish(epoch, p) {
		return
	}
	w.tell(node.ContainerStop, p)
	pass(w.about(200 * time.Millisecond))
	if w.insist(epoch, func() { p.ready = false }) {
		return
	}
	w.tell(node.PodStop, p)
	pass(w.about(2 * time.Second))
	if !w.insist(epoch, func() { delete(w.pods, p.id) }) {
		w.tell(node.PodRemove, p)
	}
}

// create makes and starts the container, if the fence lets it.
func (w *world) create(epoch int, p *pod) (gone bool) {
	for !p.made {
		gone := w.insist(epoch, func() {
			d := w.daemon
			if p.excused = p.excused || d == nil; !p.excused && d.guards.Apply != nil && d.guards.Refuse(p.seen()) != nil {
				return
			}
			p.made, p.madeAt = true, time.Now()
		})
		if gone {
			return true
		}
		pass(w.about(100 * time.Millisecond))
	}
	return w.insist(epoch, func() { p.started = true })
}

// finish is the end of the container, which a freezer puts off.
func (w *world) finish(epoch int, p *pod) (gone bool) {
	for {
		w.mu.Lock()
		if w.epoch != epoch {
			w.mu.Unlock()
			return true
		}
		if p.frozen && !p.killed {
			w.mu.Unlock()
			pass(w.about(20 * time.Millisecond))
			continue
		}
		p.finished, p.end = true, time.Now()
		if !w.answers && w.down != nil && p.promised && !p.killed {
			w.down.lost = append(w.down.lost, p.id)
		}
		w.mu.Unlock()
		return false
	}
}

// enqueue stages an entry, as an installer does.
func (w *world) enqueue(op stage.Op, handlers ...string) {
	w.mu.Lock()
	w.count++
	m := stage.Manifest{Schema: stage.Schema, ID: fmt.Sprintf("entry-%d", w.count), Op: op, Created: time.Now().Add(w.skew)}
	shim := w.rng.IntN(2) == 0
	w.mu.Unlock()
	for _, name := range handlers {
		h := stage.Handler{Name: name}
		switch {
		case op == stage.Remove:
		case shim:
			h.Shim = "containerd-shim-x-v1"
			m.Files = []stage.File{{Name: h.Shim, Mode: 0o755}}
		default:
			h.RuntimeType = "io.containerd.runc.v2"
		}
		m.Handlers = append(m.Handlers, h)
	}
	in, err := stage.OpenInbox(w.path("var/stage/inbox"))
	if err != nil {
		return
	}
	defer in.Close()
	_, err = in.Stage(context.Background(), m, func(int) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(append(slices.Clone(program()), m.ID...))), nil
	}, nil)
	if err == nil {
		w.mu.Lock()
		w.staged = append(w.staged, m.ID)
		w.mu.Unlock()
	}
}

// program is the head of a real program of this machine, without sections and segments.
func program() []byte {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	head := make([]byte, 64)
	if _, err := io.ReadFull(f, head); err != nil {
		panic(err)
	}
	for _, field := range [][2]int{{32, 48}, {56, 58}, {60, 64}} { // e_phoff and e_shoff, e_phnum, e_shnum and e_shstrndx (elf(5))
		clear(head[field[0]:field[1]])
	}
	return head
}
