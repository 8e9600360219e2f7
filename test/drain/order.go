package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quiesce/test/lab"
)

// Tiers is the number of tiers of Hundred.
const Tiers = 6

// Order is what a drain of many pods was like. Signals are counted inside the containers; an exit lies between what they say and what CRI does.
type Order struct {
	Pods       int     `json:"pods"`
	Tiers      int     `json:"tiers"`
	Inversions int     `json:"order_inversions"` // tiers with a signal before the last exit of the tier before
	Early      int     `json:"early_kills"`      // containers killed before the end of their grace
	MaxSignals int     `json:"max_signals_per_container"`
	HardKills  int     `json:"hard_kills"`
	Makespan   float64 `json:"makespan_s"`
	Floor      float64 `json:"floor_s"` // sum over the tiers of the longest signal to exit and sandbox gone
}

// Limit is the longest makespan that is good enough.
func (o Order) Limit() float64 { return 1.05*o.Floor + 0.5 }

// Over is how much longer than that it took.
func (o Order) Over() float64 { return o.Makespan - o.Limit() }

// Hundred makes 100 pods in the six default tiers, with graces from 1 to 40 s. One of each tier is deaf, and one uses
// nearly all of its grace.
func Hundred() (pods []Pod) {
	longest := []int{40, 8, 6, 5, 4, 3}
	for i := range 100 {
		tier := i % Tiers
		grace := 1 + (i/Tiers*7)%longest[tier]
		after := time.Duration(grace) * time.Duration(i*37%60) * 10 * time.Millisecond
		switch i / Tiers {
		case 0:
			grace, after = longest[tier], time.Duration(longest[tier])*time.Second-300*time.Millisecond
		case 1:
			grace = 3
		}
		p := Victim("default", fmt.Sprintf("t%d-pod%02d", tier+1, i), grace, "-after", after.String(), "-code", fmt.Sprint(i%3))
		if i/Tiers == 1 {
			p.Containers[0].Argv = append(p.Containers[0].Argv, "-deaf")
		}
		Place(&p, tier)
		pods = append(pods, p)
	}
	return pods
}

// Place makes a pod one of a default tier, by what tells its tier.
func Place(p *Pod, tier int) {
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
}

// Deaf is how many pods of Hundred have to be killed.
const Deaf = Tiers

// StartHundred starts the hundred pods.
func StartHundred(ctx context.Context, l *lab.Lab, k *Kubelet) ([]Pod, error) {
	if _, err := script(ctx, l, "mkdir -p /opt/cni/bin /var/lib/kubelet/plugins"); err != nil {
		return nil, err
	}
	pods := Hundred()
	if err := k.Start(ctx, pods...); err != nil {
		return nil, err
	}
	return pods, Started(ctx, l, names(pods)...)
}

// MeasureOrder drains the node of these pods and measures. problems name every breach.
func MeasureOrder(ctx context.Context, l *lab.Lab, pods []Pod, keep Keep) (o Order, problems []string, err error) {
	plan, err := l.Quiesce(ctx, "plan")
	if err != nil {
		return o, nil, err
	}
	if _, err := l.Quiesce(ctx, "drain", "--all", "--yes"); err != nil {
		return o, nil, err
	}
	r, err := ReadReport(ctx, l)
	if err != nil {
		return o, nil, err
	}
	ends, err := ends(ctx, l, r, pods)
	if err != nil {
		return o, nil, err
	}
	o, problems = judge(r, ends)
	b, err := json.MarshalIndent(ends, "", "  ")
	if err != nil {
		return o, problems, err
	}
	table, err := l.Quiesce(ctx, "report")
	if err != nil {
		return o, problems, err
	}
	return o, problems, errors.Join(keep.keep("order-containers.json", b), keep.keep("order-plan.txt", []byte(plan)),
		keep.keep("order-report.txt", []byte(table)))
}

// Picture is the report of the last drain as JSON, and its timeline.
func Picture(ctx context.Context, l *lab.Lab) (report, svg []byte, err error) {
	text, err := l.Quiesce(ctx, "report", "--output", "json")
	if err != nil {
		return nil, nil, err
	}
	if _, err := l.Quiesce(ctx, "report", "--svg", "/tmp/drain.svg"); err != nil {
		return nil, nil, err
	}
	svg, err = l.ReadFile("/tmp/drain.svg")
	return []byte(text), svg, err
}
