package drain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quiesce/test/lab"
)

// hundred makes 100 pods in the six default tiers, with graces from 1 to 40 s. One of each tier is deaf, and one uses
// nearly all of its grace.
func hundred() (pods []Pod) {
	longest := []int{40, 8, 6, 5, 4, 3}
	for i := range 100 {
		tier := i % 6
		grace := 1 + (i/6*7)%longest[tier]
		after := time.Duration(grace) * time.Duration(i*37%60) * 10 * time.Millisecond
		switch i / 6 {
		case 0:
			grace, after = longest[tier], time.Duration(longest[tier])*time.Second-300*time.Millisecond
		case 1:
			grace = 3
		}
		p := Victim("default", fmt.Sprintf("t%d-pod%02d", tier+1, i), grace, "-after", after.String(), "-code", fmt.Sprint(i%3))
		if i/6 == 1 {
			p.Containers[0].Argv = append(p.Containers[0].Argv, "-deaf")
		}
		switch tier {
		case 1:
			p.Namespace = "kube-system"
		case 2:
			p.Labels["pod-template-generation"], p.Labels["controller-revision-hash"] = "1", "x"
		case 3:
			p.Containers[0].Mounts["/var/lib/kubelet/plugins"] = "/plugins"
		case 4:
			p.Containers[0].Mounts["/opt/cni/bin"] = "/cni"
		case 5:
			p.Source, p.Namespace = "file", "kube-system"
		}
		pods = append(pods, p)
	}
	return pods
}

// TestDrain_b drains 100 pods in 6 tiers.
func TestDrain_b(t *testing.T) {
	ctx, l, k := setup(t, 8*time.Minute, lab.Options{Name: "drain-b"})
	sh(ctx, t, l, "mkdir -p /opt/cni/bin /var/lib/kubelet/plugins")
	pods := hundred()
	check(t, k.Start(ctx, pods...))
	started(ctx, t, l, names(pods)...)
	_, err := l.Quiesce(ctx, "drain", "--all", "--yes")
	check(t, err)
	r := report(ctx, t, l)
	if len(r.Pods) != 100 || len(r.Steps) != 6 {
		t.Fatalf("%d pods in %d steps", len(r.Pods), len(r.Steps))
	}
	inversions, early, maxSignals, hard := 0, 0, 0, 0
	firstSignal, lastExit := make([]time.Time, 6), make([]time.Time, 6)
	floor := time.Duration(0)
	longest := make([]time.Duration, 6)
	for _, p := range r.Pods {
		c := p.Containers[0]
		got := signals(t, l, p.Name)
		maxSignals = max(maxSignals, len(got))
		if len(got) == 0 {
			t.Fatalf("%s was never signalled: %+v", p.Name, p)
		}
		if f := firstSignal[p.Step]; f.IsZero() || got[0].At.Before(f) {
			firstSignal[p.Step] = got[0].At
		}
		if c.Exit.After(lastExit[p.Step]) {
			lastExit[p.Step] = c.Exit
		}
		if c.Outcome == "killed at deadline" {
			hard++
			if c.Exit.Sub(got[0].At) < p.Asked-50*time.Millisecond {
				early++
				t.Errorf("%s was killed %v after its signal, its grace is %v", p.Name, c.Exit.Sub(got[0].At), p.Asked)
			}
		} else if c.Outcome != "exited" {
			t.Errorf("%s: %s", p.Name, c.Outcome)
		}
		longest[p.Step] = max(longest[p.Step], c.Exit.Sub(got[0].At)+p.Stopped.Sub(c.Exit))
	}
	for i := 1; i < 6; i++ {
		if firstSignal[i].Before(lastExit[i-1]) {
			inversions++
			t.Errorf("step %d: first signal %v, last exit before %v", i, firstSignal[i], lastExit[i-1])
		}
	}
	for _, d := range longest {
		floor += d
	}
	makespan := r.Finished.Sub(r.Began)
	t.Logf("100 pods, 6 tiers: %d inversions, %d early kills, at most %d signals, %d hard kills, makespan %.2f s, floor %.2f s",
		inversions, early, maxSignals, hard, makespan.Seconds(), floor.Seconds())
	if maxSignals != 1 || hard != 6 {
		t.Errorf("at most %d signals, %d hard kills; want 1 and 6", maxSignals, hard)
	}
	if limit := floor*105/100 + 500*time.Millisecond; makespan > limit {
		t.Errorf("makespan %v, want at most %v", makespan, limit)
	}
	picture(ctx, t, l)
}

// picture keeps the timeline in out/.
func picture(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	_, err := l.Quiesce(ctx, "report", "--svg", "/tmp/drain.svg")
	check(t, err)
	svg, err := l.ReadFile("/tmp/drain.svg")
	check(t, err)
	out := filepath.Join("..", "..", "out")
	check(t, os.MkdirAll(out, 0o755))
	check(t, os.WriteFile(filepath.Join(out, "drain.svg"), svg, 0o644))
	text, err := l.Quiesce(ctx, "report", "--output", "json")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(out, "drain-report.json"), []byte(text), 0o644))
}
