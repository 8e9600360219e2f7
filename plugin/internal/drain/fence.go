package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/node"
)

// Fence says whose containers are not created while a drain is on. It never changes: each State gives a new one.
type Fence struct {
	policy    Policy
	selection Selection
	rank      int
	wave      int
	known     map[string]position // by pod UID
	text      error
}

type position struct{ rank, wave int }

// ErrFenced is in the error of every refusal; the kubelet shows its text in the pod's events.
var ErrFenced = errors.New("quiesce drains this node: the container is created after `quiesce resume` or when the services start again")

// NewFence makes the fence of a State; nil if none is due in this boot.
func NewFence(st *State, boot string, policy Policy) *Fence {
	if !st.Active(boot) || len(st.Steps) == 0 {
		return nil
	}
	cur := st.Steps[min(st.Current, len(st.Steps)-1)]
	f := &Fence{policy: policy, selection: st.Selection, rank: cur.Rank, wave: cur.Wave, known: map[string]position{}}
	if st.Whole || !st.Selection.All { // of a part of the node: all its pods from now on
		f.rank, f.wave = 1<<30, 0
	}
	for _, p := range st.Pods {
		s := st.Steps[p.Step]
		f.known[p.UID] = position{s.Rank, s.Wave}
	}
	f.text = fmt.Errorf("%w (%s)", ErrFenced, st.Selection)
	return f
}

// Refuse is nil, or why a container of the pod is not created. Pods whose tier has not had its turn may restart: a
// network pod that crashes is needed until the workloads are gone.
func (f *Fence) Refuse(p *node.Pod) error {
	if f == nil || !f.selection.Matches(p) || p.Annotations[annAllow] == "true" {
		return nil
	}
	pos, ok := f.known[p.UID]
	if !ok {
		pl, _ := f.policy.place(p) // what it says wrongly of itself is passed over
		if pl.Skip {
			return nil
		}
		pos = position{rank: pl.Rank}
	}
	if pos.rank > f.rank || pos.rank == f.rank && pos.wave > f.wave {
		return nil
	}
	return f.text
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
