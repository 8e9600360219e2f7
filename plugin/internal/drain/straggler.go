package drain

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"
)

// stragglers adds what runs and should not: containers of pods whose turn was or is, made since the plan.
func (e *Engine) stragglers(ctx context.Context, step int) bool {
	if time.Now().After(e.state.Deadline) {
		return false
	}
	look, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	snap, err := e.Observer.Snapshot(look)
	if err != nil {
		log.G(ctx).WithError(err).Warn("pods cannot be listed: what was created meanwhile is not seen")
		return false
	}
	plan, _ := New(snap, e.Policy, e.state.Selection) // its problems were told when the drain began
	cur := e.state.Steps[step]
	found := false
	e.edit(func() {
		for _, s := range plan.Steps {
			if s.Rank > cur.Rank || s.Rank == cur.Rank && s.Wave > cur.Wave {
				continue
			}
			for _, pl := range s.Pods {
				found = e.state.straggler(pl, step) || found
			}
		}
	})
	if found {
		e.reach(ctx)
	}
	return found
}

// straggler adds the containers of a pod that the record lacks.
func (s *State) straggler(pl *Placement, step int) bool {
	p := record(pl, step)
	p.Why = append(p.Why, "created while its tier was drained, or after")
	var fresh []*ContainerRecord
	for _, c := range p.Containers {
		if !s.knows(c.ID) {
			fresh = append(fresh, c)
		}
	}
	if len(fresh) == 0 {
		return false
	}
	p.Containers = fresh
	s.Pods = append(s.Pods, p)
	return true
}

// sweep stops the sandboxes that a kubelet has made anew meanwhile: nothing of a drained pod stays.
func (e *Engine) sweep(ctx context.Context) {
	if e.state.KeepSandboxes || len(e.state.Steps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, podStop)
	defer cancel()
	snap, err := e.Observer.Snapshot(ctx)
	if err != nil {
		return
	}
	plan, _ := New(snap, e.Policy, e.state.Selection)
	var wg sync.WaitGroup
	for _, s := range plan.Steps {
		for _, pl := range s.Pods {
			if pl.Pod.Ready && len(pl.Targets) == 0 {
				wg.Go(func() { _ = e.Stopper.StopPod(ctx, pl.Pod.ID) }) // best effort: nothing runs in it
			}
		}
	}
	wg.Wait()
}
