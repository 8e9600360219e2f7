package drain

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"quiesce/plugin/internal/node"
)

// Plan is the order in which pods are stopped.
type Plan struct {
	Steps   []Step
	Skipped []*Placement
}

// Step is a set of pods that are stopped together: a wave of a tier.
type Step struct {
	Tier string
	Rank int
	Wave int
	Pods []*Placement
}

// Name is the tier's, with the wave if it is not the first.
func (s *Step) Name() string {
	if s.Wave == 0 {
		return s.Tier
	}
	return fmt.Sprintf("%s/%d", s.Tier, s.Wave+1)
}

// New makes the plan for the selected pods that have something to stop. The order comes from all pods of the snapshot.
// The error lists cycles, contradictions and annotations that cannot be read; the plan is usable all the same, without
// them: a shutdown does not wait until somebody has put his annotations right.
func New(s node.Snapshot, policy Policy, sel Selection) (Plan, error) {
	var pods []*Placement
	var problems error
	for _, p := range s.Pods {
		if !p.Ready && !slices.ContainsFunc(p.Containers, func(c node.Container) bool { return c.Active() }) {
			continue
		}
		pl, err := policy.place(p)
		problems = errors.Join(problems, err)
		pods = append(pods, pl)
	}
	g, err := policy.edges(pods)
	problems = errors.Join(problems, err, g.breakCycles(), policy.settle(g))
	var plan Plan
	steps := map[[2]int]int{} // rank and wave → index
	for _, pl := range pods {
		switch {
		case !sel.Matches(pl.Pod):
		case pl.Skip:
			plan.Skipped = append(plan.Skipped, pl)
		default:
			plan.add(pl, steps)
		}
	}
	slices.SortFunc(plan.Steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Wave, b.Wave)) })
	return plan, problems
}

func (p *Plan) add(pl *Placement, steps map[[2]int]int) {
	at := [2]int{pl.Rank, pl.Wave}
	i, ok := steps[at]
	if !ok {
		i = len(p.Steps)
		steps[at] = i
		p.Steps = append(p.Steps, Step{Tier: pl.Tier, Rank: pl.Rank, Wave: pl.Wave})
	}
	p.Steps[i].Pods = append(p.Steps[i].Pods, pl)
}

// Pods is how many pods the plan stops.
func (p *Plan) Pods() (n int) {
	for _, s := range p.Steps {
		n += len(s.Pods)
	}
	return n
}

// Print writes the order with its reasons.
func (p *Plan) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(cols ...string) { fmt.Fprintln(w, clean(strings.Join(cols, "\t"))) }
	row("STEP", "TIER", "POD", "CONTAINERS", "GRACE", "WHY")
	for i, s := range p.Steps {
		for _, pl := range s.Pods {
			row(fmt.Sprint(i+1), s.Name(), pl.Pod.String(), pl.names(), pl.Grace.String(), strings.Join(pl.Why, "; "))
		}
	}
	for _, pl := range p.Skipped {
		row("-", pl.Tier, pl.Pod.String(), pl.names(), "-", strings.Join(pl.Why, "; "))
	}
	return w.Flush()
}

// names lists the containers in the order in which they stop.
func (pl *Placement) names() string {
	var mains, sidecars []string
	for _, t := range pl.Targets {
		if t.Sidecar == 0 {
			mains = append(mains, t.Container.Name)
		}
	}
	for _, s := range slices.Backward(pl.Sidecars) {
		if slices.ContainsFunc(pl.Targets, func(t Target) bool { return t.Container.Name == s }) {
			sidecars = append(sidecars, s)
		}
	}
	return strings.Join(append([]string{strings.Join(mains, ",")}, sidecars...), " > ")
}

// clean drops control characters but tabs: names come from pods.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (r < ' ' || (r >= 0x7f && r < 0xa0)) {
			return '\uFFFD'
		}
		return r
	}, s)
}
