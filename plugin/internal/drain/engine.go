package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/node"
)

// Stopper stops.
type Stopper interface {
	// StopContainer sends the stop signal unless it was sent, and waits until the container has ended, timeout has
	// passed (it is killed then) or ctx ends. A timeout of 0 is SIGKILL.
	StopContainer(ctx context.Context, id string, timeout time.Duration) error
	StopPod(ctx context.Context, id string) error
}

// Observer looks.
type Observer interface {
	Snapshot(ctx context.Context) (node.Snapshot, error)
	States(ctx context.Context) (map[string]node.ContainerState, error)
	Exit(ctx context.Context, id string) (Exit, error)
}

// Exit is how a container ended, as far as the runtime knows.
type Exit struct {
	Known  bool // the runtime knows the container
	Ended  bool
	At     time.Time
	Code   int
	Lost   bool // the code is not the container's: 255, Unknown
	Killed bool // out of memory
}

// Hooks runs preStop hooks other than sleep; host is the pod's address.
type Hooks interface {
	Run(ctx context.Context, container string, h Hook, host string, timeout time.Duration) error
}

// Journal makes a State durable.
type Journal interface {
	Save(st *State) error
}

// Reach is how a container is reached when the runtime is gone.
type Reach struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // of the process, in clock ticks since boot: a PID that is used again has another one
	Runc  bool   `json:"runc"`  // the PID is the container's own, not a VMM's
	Stop  string `json:"stop"`  // its stop signal
}

// Reacher tells how containers are reached without the runtime.
type Reacher interface {
	Reach(ctx context.Context) (map[string]Reach, error)
}

// Engine carries out one drain. It is used once.
type Engine struct {
	Stopper  Stopper
	Observer Observer
	Hooks    Hooks
	Journal  Journal
	Policy   Policy
	Fence    func(ctx context.Context) error // tells the daemon to read the State; nil: there is none
	Reacher  Reacher                         // may be nil

	mu     sync.Mutex // for all of state
	state  *State
	watch  *watch
	saveMu sync.Mutex
	saved  uint64 // change up to which the State is durable
	change uint64
}

// leasePer is added to a lease for each container of a step: that many runc run at the same time.
const leasePer = 40 * time.Millisecond

// State is a copy for whoever looks on; nil before Run.
func (e *Engine) State() *State {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == nil {
		return nil
	}
	return e.state.Clone()
}

// Run does what is not yet done of st, and returns when everything is, or ctx ends. What pods do is in the State and
// never an error.
func (e *Engine) Run(ctx context.Context, st *State) error {
	e.mu.Lock()
	e.state = st
	st.Phase = Draining
	e.mu.Unlock()
	e.reach(ctx)
	e.watch = newWatch(e.Observer)
	stop := e.watch.start(ctx)
	defer stop()
	for i := st.Current; i < len(st.Steps); i++ {
		e.step(ctx, i)
		if ctx.Err() != nil {
			e.edit(func() { st.Phase = Interrupted })
			return errors.Join(fmt.Errorf("drain: %w", context.Cause(ctx)), e.commit(context.WithoutCancel(ctx)))
		}
	}
	e.sweep(ctx)
	e.edit(func() { st.Phase, st.Finished = Drained, time.Now().UTC() })
	err := e.commit(ctx)
	e.tell(ctx)
	return err
}

// reach notes how the containers are reached should the runtime die.
func (e *Engine) reach(ctx context.Context) {
	if e.Reacher == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exitLimit)
	defer cancel()
	all, err := e.Reacher.Reach(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Warn("processes are not known: without the runtime their containers cannot be stopped")
		return
	}
	e.edit(func() {
		for _, p := range e.state.Pods {
			for _, c := range p.Containers {
				if r, ok := all[c.ID]; ok && c.Outcome == "" {
					c.Reach = r
				}
			}
		}
	})
}

// edit changes the State.
func (e *Engine) edit(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.change++
}

// commit returns when every edit made before is durable. Those that wait together share one write.
func (e *Engine) commit(ctx context.Context) error {
	e.mu.Lock()
	want := e.change
	e.mu.Unlock()
	e.saveMu.Lock()
	defer e.saveMu.Unlock()
	if e.saved >= want {
		return nil
	}
	e.mu.Lock()
	want = e.change
	copied := e.state.Clone()
	e.mu.Unlock()
	if err := e.Journal.Save(copied); err != nil {
		log.G(ctx).WithError(err).Error("the drain's state was not written; going on")
		return err
	}
	e.saved = want
	return nil
}

// persist is commit where nothing depends on it but the report.
func (e *Engine) persist(ctx context.Context, f func()) {
	e.edit(f)
	_ = e.commit(ctx) // logged there, and the drain goes on without a disk
}

// tell makes the daemon's fence follow the State. A daemon that is not there is noted.
func (e *Engine) tell(ctx context.Context) {
	if e.Fence == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := e.Fence(ctx)
	if err == nil {
		return
	}
	log.G(ctx).WithError(err).Warn("no fence: the daemon does not answer")
	e.edit(func() { e.state.note("no fence: " + err.Error()) })
}

func (s *State) note(text string) {
	for _, n := range s.Notes {
		if n == text {
			return
		}
	}
	s.Notes = append(s.Notes, text)
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

// rounds is how often a step looks for containers that were made while it ran.
const rounds = 5

// step stops the pods of a step, and what turned up behind its back.
func (e *Engine) step(ctx context.Context, i int) {
	st := e.state
	e.persist(ctx, func() {
		st.Current = i
		if st.Steps[i].Began.IsZero() {
			st.Steps[i].Began = time.Now().UTC()
		}
	})
	e.tell(ctx)
	log.G(ctx).WithField("tier", st.Steps[i].Name).Info("draining tier")
	for range rounds {
		e.mu.Lock()
		pods := st.step(i)
		e.mu.Unlock()
		e.pods(ctx, i, pods)
		if ctx.Err() != nil || !e.stragglers(ctx, i) {
			break
		}
	}
	if ctx.Err() == nil {
		e.persist(ctx, func() { st.Steps[i].Ended = time.Now().UTC() })
	}
}

// pods stops pods in parallel.
func (e *Engine) pods(ctx context.Context, step int, pods []*PodRecord) {
	n := 0
	for _, p := range pods {
		n += len(p.Containers)
	}
	limit := e.limit(step, pods, time.Now())
	now := time.Now().UTC()
	e.edit(func() {
		for _, p := range pods {
			if p.Began.IsZero() {
				p.Began, p.Given = now, max(min(p.Asked, limit), Floor)
				p.Deadline = now.Add(p.Given)
			}
		}
	})
	extra := time.Duration(n) * leasePer
	var wg sync.WaitGroup
	for _, p := range pods {
		wg.Go(func() { e.pod(ctx, p, extra) })
	}
	wg.Wait()
}

// limit is the grace that pods of a step may take at most. If all steps to come fit into the time left there is no
// limit; else each gets its share of it, by the longest grace that it has. What a step leaves over is the others'.
func (e *Engine) limit(step int, pods []*PodRecord, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	need := map[int]time.Duration{}
	for _, p := range e.state.Pods {
		if p.Step > step {
			need[p.Step] = max(need[p.Step], p.Asked, Floor)
		}
	}
	own := Floor
	for _, p := range pods {
		own = max(own, p.Asked)
	}
	all := own
	for _, d := range need {
		all += d
	}
	left := e.state.Deadline.Sub(now) - reserve*time.Duration(len(need)+1)
	if all <= left {
		return own
	}
	return max(Floor, time.Duration(float64(left)*float64(own)/float64(all)))
}

// reserve is what a step takes besides its grace: kills, sandboxes, lists.
const reserve = 500 * time.Millisecond

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
