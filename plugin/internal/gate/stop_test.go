package gate

import (
	"slices"
	"testing"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// TestWaitsForStopsInFlight: a pod that is being stopped is waited for, but nobody holds the gate with one of a long grace.
func TestWaitsForStopsInFlight(t *testing.T) {
	g := New(policy(), start)
	pending := []stage.Entry{entry(stage.Install, "a", "spin")}
	slow := []*node.Pod{{Namespace: "default", Name: "slow"}}
	for _, step := range []struct {
		at       float64
		stopping []*node.Pod
		blocked  bool
		open     bool
	}{
		{0, slow, true, false},
		{20, slow, true, false},
		{21, nil, false, false},
		{26, nil, false, true},
		{30, slow, true, false},
		{90, slow, true, false},
		{91, slow, false, false},
		{96, slow, false, true},
	} {
		d := g.Decide(Input{Now: at(step.at), Pending: pending, Answers: true, Stopping: step.stopping})
		if blocked := slices.Contains(reasons(d), StopInFlight); blocked != step.blocked || d.Open != step.open {
			t.Errorf("at %v: blocked %v, open %v; want %v, %v", step.at, blocked, d.Open, step.blocked, step.open)
		}
	}
}
