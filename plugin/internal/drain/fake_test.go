package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quiesce/plugin/internal/node"
)

// behaviour is what a fake container does when it is told to stop.
type behaviour struct {
	after      time.Duration // from signal to exit; less than zero: never
	code       int
	unkillable bool
}

// runtime is a runtime in memory: one signal per container, as containerd's flag gives it.
type runtime struct {
	mu       sync.Mutex
	pods     []*node.Pod
	does     map[string]behaviour
	signals  map[string][]time.Time // sent to the container
	kills    map[string]time.Time
	exits    map[string]Exit
	calls    map[string]int // StopContainer with a grace
	stopped  []string       // sandboxes
	hooks    []string
	down     bool
	late     time.Duration // after its process has ended the runtime notes that a container has
	slow     time.Duration // before it answers a question; a signal takes twice as long to arrive
	onSignal func(id string)
	saves    []*State
}

func newRuntime(pods ...*node.Pod) *runtime {
	return &runtime{
		pods: pods, does: map[string]behaviour{}, signals: map[string][]time.Time{}, kills: map[string]time.Time{},
		exits: map[string]Exit{}, calls: map[string]int{},
	}
}

var errDown = errors.New("unavailable")

func (r *runtime) end(id string, at time.Time, code int) {
	if _, over := r.exits[id]; !over {
		r.exits[id] = Exit{Known: true, Ended: true, At: at, Code: code}
	}
}

func (r *runtime) ended(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, over := r.exits[id]
	return over
}

func (r *runtime) StopContainer(ctx context.Context, id string, timeout time.Duration) error {
	r.mu.Lock()
	if r.down {
		r.mu.Unlock()
		return errDown
	}
	b := r.does[id]
	if timeout == 0 {
		if r.kills[id].IsZero() {
			r.kills[id] = time.Now()
		}
		if !b.unkillable {
			r.end(id, time.Now(), 137)
		}
		r.mu.Unlock()
		if b.unkillable {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	r.calls[id]++
	if len(r.signals[id]) == 0 {
		r.signals[id] = append(r.signals[id], time.Now().Add(2*r.slow))
		if b.after >= 0 {
			b.after += 2 * r.slow
			over := time.Now().Add(b.after)
			time.AfterFunc(b.after+r.late, func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.end(id, over, b.code)
			})
		}
		if r.onSignal != nil {
			go r.onSignal(id)
		}
	}
	r.mu.Unlock()
	for end := time.Now().Add(timeout); time.Now().Before(end); {
		if r.ended(id) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return fmt.Errorf("container %s was killed by the runtime: the lease is too long", id)
}

func (r *runtime) StopPod(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = append(r.stopped, id)
	for _, p := range r.pods {
		if p.ID == id {
			p.Ready = false
		}
	}
	return nil
}

func (r *runtime) Sent(ctx context.Context, id string) error {
	r.mu.Lock()
	at := time.Now()
	if all := r.signals[id]; len(all) > 0 {
		at = all[len(all)-1]
	}
	r.mu.Unlock()
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *runtime) Snapshot(context.Context) (node.Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return node.Snapshot{}, errDown
	}
	var s node.Snapshot
	for _, p := range r.pods {
		q := *p
		q.Containers = nil
		for _, c := range p.Containers {
			if _, over := r.exits[c.ID]; over {
				c.State = node.Exited
			}
			q.Containers = append(q.Containers, c)
		}
		s.Pods = append(s.Pods, &q)
	}
	return s, nil
}

func (r *runtime) States(ctx context.Context) (map[string]node.ContainerState, error) {
	<-time.After(r.slow)
	s, err := r.Snapshot(ctx)
	out := map[string]node.ContainerState{}
	for _, p := range s.Pods {
		for _, c := range p.Containers {
			out[c.ID] = c.State
		}
	}
	return out, err
}

func (r *runtime) Exit(_ context.Context, id string) (Exit, error) {
	<-time.After(r.slow)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return Exit{}, errDown
	}
	if x, over := r.exits[id]; over {
		x.At = x.At.Add(r.late)
		return x, nil
	}
	return Exit{Known: true}, nil
}

func (r *runtime) Run(ctx context.Context, id string, h Hook, _ string, _ time.Duration) error {
	r.mu.Lock()
	r.hooks = append(r.hooks, id+" "+h.String())
	r.mu.Unlock()
	if h.String() == "exec hang" {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (r *runtime) Save(st *State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saves = append(r.saves, st)
	return nil
}

func (r *runtime) engine(policy Policy) *Engine {
	return &Engine{Stopper: r, Observer: r, Hooks: r, Journal: r, Policy: policy}
}

func (r *runtime) drain(ctx context.Context, policy Policy) (*State, error) {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := New(snap, policy, Selection{All: true})
	if err != nil {
		return nil, err
	}
	st := NewState(plan, Selection{All: true}, "id", "boot", "test", time.Now(), policy.Deadline)
	return st, r.engine(policy).Run(ctx, st)
}
