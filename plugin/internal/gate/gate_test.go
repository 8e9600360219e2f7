package gate

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func policy() Policy { return Policy{Quiet: 5 * time.Second, Undecided: time.Minute} }

func entry(op stage.Op, id string, handlers ...string) stage.Entry {
	e := stage.Entry{Manifest: stage.Manifest{ID: id, Op: op}}
	for _, h := range handlers {
		e.Handlers = append(e.Handlers, stage.Handler{Name: h})
	}
	return e
}

func installer(name string, undecided bool) node.Installer {
	return node.Installer{Pod: &node.Pod{Namespace: "kube-system", Name: name}, Verdict: node.Verdict{InFlight: true, Undecided: undecided, Why: "test"}}
}

func reasons(d Decision) (rs []string) {
	for _, b := range d.Blockers {
		rs = append(rs, b.Reason)
	}
	return rs
}

func TestOpensAfterOneQuietPeriodWithoutBlockers(t *testing.T) {
	g := New(policy(), start)
	spin := []stage.Entry{entry(stage.Install, "a", "spin")}
	busy := []node.Installer{installer("x", false)}
	for _, step := range []struct {
		at         float64
		installers []node.Installer
		open       bool
		phase      Phase
		reason     string
	}{
		{0, busy, false, Collecting, InstallersInFlight},
		{10, busy, false, Collecting, InstallersInFlight},
		{11, nil, false, Collecting, QuietPeriod},
		{15, nil, false, Collecting, QuietPeriod},
		{15.5, busy, false, Collecting, InstallersInFlight}, // one that starts inside the quiet period is waited for
		{16, nil, false, Collecting, QuietPeriod},
		{20.9, nil, false, Collecting, QuietPeriod},
		{21, nil, true, Collecting, ""},
	} {
		d := g.Decide(Input{Now: at(step.at), Pending: spin, Installers: step.installers, Answers: true})
		if d.Open != step.open || d.Phase != step.phase {
			t.Errorf("at %v s: %+v, want open %v in %s", step.at, d, step.open, step.phase)
		}
		if step.reason != "" && !slices.Contains(reasons(d), step.reason) {
			t.Errorf("at %v s: blockers %v, want %q", step.at, reasons(d), step.reason)
		}
		if d.Open && !slices.Equal(d.Ready, []string{"a"}) {
			t.Errorf("ready is %v", d.Ready)
		}
	}
}

func TestPhases(t *testing.T) {
	spin := []stage.Entry{entry(stage.Install, "a", "spin")}
	for _, tc := range []struct {
		name  string
		in    Input
		phase Phase
		open  bool
	}{
		{"nothing is pending", Input{Answers: true}, Idle, false},
		{"held", Input{Pending: spin, Hold: "me", Answers: true}, Held, false},
		{"apply runs", Input{Pending: spin, Running: true, Answers: true}, Applying, false},
		{"not synchronized", Input{Pending: spin, Synced: "no list yet"}, Collecting, false},
		{"draining", Input{Pending: spin, Draining: true, Answers: true}, Collecting, false},
		{"a crash left a runtime that answers", Input{Unfinished: true, Answers: true}, Collecting, false},
		{"a crash left no journal, and the runtime is silent", Input{Died: true, Synced: "no answer"}, Collecting, false},
		{"a crash left a runtime that is silent", Input{Unfinished: true, Synced: "no answer"}, Collecting, true},
		{"the same, held: an operator looks at it", Input{Unfinished: true, Synced: "no answer", Hold: "me"}, Held, false},
	} {
		g := New(policy(), start)
		tc.in.Now = at(1)
		if d := g.Decide(tc.in); d.Phase != tc.phase || d.Open != tc.open {
			t.Errorf("%s: %+v, want %s, open %v", tc.name, d, tc.phase, tc.open)
		}
	}
}

func TestARemovalWaitsForPodsAndHoldsNobodyUp(t *testing.T) {
	g := New(policy(), start)
	in := Input{
		Now: at(0), Answers: true, Pending: []stage.Entry{entry(stage.Remove, "r", "spin"), entry(stage.Install, "i", "wasm")},
		Users: map[string][]*node.Pod{"spin": {{Namespace: "default", Name: "app"}}},
	}
	g.Decide(in)
	in.Now = at(5)
	d := g.Decide(in)
	if !d.Open || !slices.Equal(d.Ready, []string{"i"}) || !slices.Contains(reasons(d), PodsUseHandler) {
		t.Fatalf("%+v, want open for the install only", d)
	}
	in.Pending = in.Pending[:1]
	in.Now = at(20)
	if d := g.Decide(in); d.Open || d.Phase != Collecting {
		t.Errorf("%+v, want the removal to wait", d)
	}
	in.Users, in.Now = nil, at(21)
	g.Decide(in)
	in.Now = at(26)
	if d := g.Decide(in); !d.Open || !slices.Equal(d.Ready, []string{"r"}) {
		t.Errorf("%+v, want open for the removal", d)
	}
}

func TestUndecidedPodsHoldForABoundedTimeTogether(t *testing.T) {
	g := New(policy(), start)
	in := Input{Answers: true, Pending: []stage.Entry{entry(stage.Install, "a", "spin")}}
	for s := range 60 { // a new Job's pod every four seconds, for one second
		in.Now, in.Installers = at(float64(s)), nil
		if s%4 == 0 {
			in.Installers = []node.Installer{installer("job", true)}
		}
		if d := g.Decide(in); d.Open {
			t.Fatalf("opened after %d s", s)
		}
	}
	in.Installers = []node.Installer{installer("job", true)}
	in.Now = at(61)
	g.Decide(in)
	in.Now = at(66)
	if d := g.Decide(in); !d.Open || !d.Tired {
		t.Errorf("%+v, want open: undecided pods have had their time", d)
	}
	in.Installers = []node.Installer{installer("real", false)}
	in.Now = at(70)
	if d := g.Decide(in); d.Open {
		t.Error("opened with an installer in flight")
	}
}

func TestMaxDefer(t *testing.T) {
	p := policy()
	p.MaxDefer = time.Minute
	g := New(p, start)
	in := Input{Answers: true, Pending: []stage.Entry{entry(stage.Install, "a", "spin")}, Installers: []node.Installer{installer("hangs", false)}}
	for s := range 61 {
		in.Now = at(float64(s))
		if d := g.Decide(in); d.Open {
			t.Fatalf("opened after %d s", s)
		}
	}
	in.Now = at(61)
	g.Decide(in)
	in.Now = at(66)
	if d := g.Decide(in); !d.Open || !d.Forced {
		t.Errorf("%+v, want it forced open", d)
	}
}

// TestNeverOpensAgainstABlocker walks through random histories: whenever the gate opens for entries, nothing
// has objected during the whole quiet period before.
func TestNeverOpensAgainstABlocker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New(policy(), start)
		now, objected := start, start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			in := Input{Now: now, Answers: true, Pending: []stage.Entry{entry(stage.Install, "a", "spin")}}
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0:
				in.Installers = []node.Installer{installer("x", false)}
			case 1:
				in.Synced = "list failed"
			case 2:
				in.Hold = "me"
			case 3:
				in.Running = true
			case 4:
				in.Draining = true
			}
			if len(in.Installers) > 0 || in.Synced != "" || in.Hold != "" || in.Running || in.Draining {
				objected = now
			}
			if d := g.Decide(in); d.Open && now.Sub(objected) < policy().Quiet {
				t.Fatalf("opened %v after something objected", now.Sub(objected))
			}
		}
	})
}

func TestAFaultKeepsTheGateClosed(t *testing.T) {
	g := New(policy(), start)
	in := Input{Now: at(0), Pending: []stage.Entry{entry(stage.Install, "a", "spin")}, Answers: true, Fault: "no space left"}
	for _, unfinished := range []bool{false, true} { // also where a rollback could not make it worse: it has just failed
		in.Unfinished, in.Answers = unfinished, !unfinished
		d := g.Decide(in)
		if d.Open || d.Phase != Collecting || !slices.Contains(reasons(d), LastTryFailed) {
			t.Errorf("%+v", d)
		}
	}
	in.Fault, in.Unfinished, in.Answers, in.Now = "", false, true, at(10)
	if d := g.Decide(in); d.Open {
		t.Error("it opens without a quiet period")
	}
	in.Now = at(15)
	if d := g.Decide(in); !d.Open {
		t.Errorf("it stays closed: %+v", d)
	}
}

// TestLead: apply may begin before the quiet period ends, and is told when that is; who comes in between is asked again then.
func TestLead(t *testing.T) {
	p := policy()
	p.Lead = time.Second
	g := New(p, at(0))
	in := func(s float64) Input {
		return Input{Now: at(s), Answers: true, Pending: []stage.Entry{entry(stage.Install, "i", "a")}}
	}
	if d := g.Decide(in(0)); d.Open || d.Check > time.Second {
		t.Errorf("at 0: %+v", d)
	}
	if d := g.Decide(in(3.5)); d.Open || d.Check > 500*time.Millisecond {
		t.Errorf("at 3.5 s: %+v", d)
	}
	if d := g.Decide(in(4.2)); !d.Open || !d.Due.Equal(at(5)) {
		t.Errorf("at 4.2 s: open %v, due %v", d.Open, d.Due)
	}
	late := New(p, at(0))
	late.Decide(in(0))
	if d := late.Decide(in(6)); !d.Open || !d.Due.IsZero() {
		t.Errorf("at 6 s: open %v, due %v", d.Open, d.Due)
	}
}
