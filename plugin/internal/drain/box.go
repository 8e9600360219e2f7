package drain

import (
	"context"
	"slices"
	"time"
)

// box finds out how the containers of a pod ended and stops its sandbox, beside what comes next. Pods on the node's own
// network wait for all sandboxes: the network plugin that takes a sandbox's network down is one of them.
func (e *Engine) box(ctx context.Context, p *PodRecord) {
	e.edit(func() { p.boxed = true })
	e.boxes.Go(func() {
		for _, c := range p.Containers {
			e.verify(ctx, c)
		}
		e.sandbox(ctx, p)
	})
}

// leftBoxes goes on with the sandboxes of the steps before the current one, of a drain whose process died.
func (e *Engine) leftBoxes(ctx context.Context) {
	e.mu.Lock()
	var left []*PodRecord
	for i := range e.state.Current {
		left = append(left, e.state.step(i)...)
	}
	e.mu.Unlock()
	for _, p := range left {
		e.box(ctx, p)
	}
}

// hosted tells whether a pod of a step is on the node's own network.
func (s *State) hosted(step int) bool {
	return slices.ContainsFunc(s.Pods, func(p *PodRecord) bool { return p.Step == step && p.HostNetwork })
}

// sandbox stops a pod's sandbox when nothing runs in it.
func (e *Engine) sandbox(ctx context.Context, p *PodRecord) {
	if ctx.Err() != nil || e.state.KeepSandboxes {
		return
	}
	for _, c := range p.Containers {
		if c.Outcome == Unkillable {
			e.persist(ctx, func() { p.Error = "not stopped: container " + c.Name + " is unkillable" })
			return
		}
	}
	stop, cancel := context.WithTimeout(ctx, podStop)
	defer cancel()
	err := e.Stopper.StopPod(stop, p.ID)
	e.persist(ctx, func() {
		p.Stopped = time.Now().UTC()
		if err != nil {
			p.Stopped, p.Error = time.Time{}, err.Error()
		}
	})
}
