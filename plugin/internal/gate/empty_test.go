package gate

import (
	"slices"
	"testing"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

func user(handler string, states ...node.ContainerState) *node.Pod {
	p := &node.Pod{Namespace: "a", Name: "p-" + handler, Handler: handler, Ready: true}
	for _, s := range states {
		p.Containers = append(p.Containers, node.Container{State: s})
	}
	return p
}

// TestDrainsTheHandlersPodsFirst: after the quiet period its pods are drained, then the gate opens at once.
func TestDrainsTheHandlersPodsFirst(t *testing.T) {
	for _, op := range []stage.Op{stage.Remove, stage.Install} {
		e := entry(op, "a", "spin")
		e.Drain = true
		plain := entry(stage.Remove, "b", "wasm")
		users := map[string][]*node.Pod{"spin": {user("spin", node.Running)}, "wasm": {user("wasm", node.Running)}}
		empty := map[string][]*node.Pod{"spin": {user("spin", node.Exited)}, "wasm": users["wasm"]}
		done := map[string]bool{"spin": true}
		g := New(policy(), start)
		for _, step := range []struct {
			at    float64
			in    Input
			drain []string
			open  bool
			why   string
		}{
			{0, Input{Users: users, Installers: []node.Installer{installer("x", false)}}, nil, false, InstallersInFlight},
			{1, Input{Users: users}, nil, false, QuietPeriod},
			{6, Input{Users: users}, []string{"spin"}, false, Draining},
			{7, Input{Users: users, Emptying: true}, nil, false, Draining},
			{8, Input{Users: users, Emptying: true, Installers: []node.Installer{installer("x", false)}}, nil, false, InstallersInFlight},
			{9, Input{Users: users, Emptying: true}, nil, false, QuietPeriod},
			{15, Input{Users: users, Drained: done}, nil, false, PodsUseHandler}, // one that survived
			{16, Input{Users: empty, Drained: done}, nil, false, QuietPeriod},
			{21, Input{Users: empty, Drained: done}, nil, true, PodsUseHandler}, // of the other entry
		} {
			step.in.Now, step.in.Pending, step.in.Answers = at(step.at), []stage.Entry{e, plain}, true
			d := g.Decide(step.in)
			if !slices.Equal(d.Drain, step.drain) || d.Open != step.open || !slices.Contains(reasons(d), step.why) {
				t.Errorf("%s at %v s: drain %v, open %v, blockers %v; want %v, %v, %q", op, step.at, d.Drain, d.Open, d.Blockers, step.drain, step.open, step.why)
			}
			if d.Open && !slices.Equal(d.Ready, []string{"a"}) {
				t.Errorf("ready is %v", d.Ready)
			}
		}
	}
}

// TestDrainsForAllThatAskForIt in one drain, and for none that a later entry has made void.
func TestDrainsForAllThatAskForIt(t *testing.T) {
	a, b, c := entry(stage.Remove, "a", "x"), entry(stage.Remove, "b", "y"), entry(stage.Install, "c", "z")
	a.Drain, b.Drain, c.Drain = true, true, true
	in := Input{Pending: []stage.Entry{a, b, c, entry(stage.Install, "d", "z")}, Users: map[string][]*node.Pod{"y": {user("y")}}}
	if got := toDrain(in); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("drains %v", got)
	}
	in.Drained = map[string]bool{"x": true, "y": true}
	if got := toDrain(in); got != nil {
		t.Errorf("drains %v again", got)
	}
}
