package drain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quiesce/plugin/stage"
)

// graph is who stops before whom: indices into placements.
type graph struct {
	pods []*Placement
	next map[int]map[int]string // from → to → why
}

func (g *graph) edge(from, to int, why string) {
	if from == to {
		return
	}
	if g.next[from] == nil {
		g.next[from] = map[int]string{}
	}
	if g.next[from][to] == "" {
		g.next[from][to] = why
	}
}

// edges makes the graph of the configured edges and the annotations.
func (p *Policy) edges(pods []*Placement) (*graph, error) {
	g := &graph{pods: pods, next: map[int]map[int]string{}}
	for n, e := range p.Edges {
		why := fmt.Sprintf("edge %d: %s before %s", n+1, e.First, e.Then)
		for i, a := range pods {
			for j, b := range pods {
				if e.First.Matches(a.Pod) && e.Then.Matches(b.Pod) {
					g.edge(i, j, why)
				}
			}
		}
	}
	var problems error
	for i, pl := range pods {
		problems = errors.Join(problems, g.annotated(i, pl, annAfter), g.annotated(i, pl, annBefore))
	}
	return g, problems
}

// annotated adds what a pod says of its neighbours in its own namespace.
func (g *graph) annotated(i int, pl *Placement, key string) (problems error) {
	for text := range strings.SplitSeq(pl.Pod.Annotations[key], ";") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		sel, err := ParseSelector(text)
		if err != nil {
			problems = errors.Join(problems, fmt.Errorf("pod %s: annotation %s: %w", pl.Pod, key, err))
			continue
		}
		why := fmt.Sprintf("annotation of %s: %s %s", pl.Pod, strings.TrimPrefix(key, stage.Prefix), text)
		for j, other := range g.pods {
			switch {
			case other.Pod.Namespace != pl.Pod.Namespace || !sel.Matches(other.Pod):
			case key == annAfter:
				g.edge(j, i, why)
			default:
				g.edge(i, j, why)
			}
		}
	}
	return problems
}

// breakCycles drops one edge of each cycle, and names the pods of each.
func (g *graph) breakCycles() (problems error) {
	for {
		cycle := g.cycle()
		if cycle == nil {
			return problems
		}
		var names []string
		for _, i := range cycle {
			names = append(names, g.pods[i].Pod.String())
		}
		last := cycle[len(cycle)-1]
		why := g.next[last][cycle[0]]
		problems = errors.Join(problems, fmt.Errorf("cycle: %s before %s (%s)", strings.Join(names, " before "), names[0], why))
		delete(g.next[last], cycle[0])
	}
}

// cycle finds one, or nil.
func (g *graph) cycle() []int {
	color := make([]int, len(g.pods))
	var path []int
	var visit func(int) []int
	visit = func(i int) []int {
		color[i] = 1
		path = append(path, i)
		for _, j := range g.after(i) {
			if color[j] == 1 {
				return slices.Clone(path[slices.Index(path, j):])
			}
			if color[j] == 0 {
				if c := visit(j); c != nil {
					return c
				}
			}
		}
		color[i] = 2
		path = path[:len(path)-1]
		return nil
	}
	for i := range g.pods {
		if color[i] == 0 {
			if c := visit(i); c != nil {
				return c
			}
		}
	}
	return nil
}

// after lists the direct successors, sorted: plans are the same for the same input.
func (g *graph) after(i int) []int {
	var out []int
	for j := range g.next[i] {
		out = append(out, j)
	}
	slices.Sort(out)
	return out
}

// sorted is a topological order; the graph has no cycle.
func (g *graph) sorted() []int {
	seen := make([]bool, len(g.pods))
	var out []int
	var visit func(int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, j := range g.after(i) {
			visit(j)
		}
		out = append(out, i)
	}
	for i := range g.pods {
		visit(i)
	}
	slices.Reverse(out)
	return out
}

// settle moves pods whose tier is only inferred so that every edge holds, first down from what follows, then up from
// what goes before, and gives waves inside tiers. Edges between placed pods that cannot hold are contradictions.
func (p *Policy) settle(g *graph) (problems error) {
	order := g.sorted()
	for _, i := range slices.Backward(order) {
		for _, j := range g.after(i) {
			a, b := g.pods[i], g.pods[j]
			if a.Rank > b.Rank && b.fixed && !a.fixed {
				p.move(a, b.Rank, g.next[i][j])
				a.fixed = true // as far as what comes before it is concerned
			}
		}
	}
	for _, i := range order {
		for _, j := range g.after(i) {
			a, b := g.pods[i], g.pods[j]
			switch {
			case a.Rank > b.Rank && b.fixed:
				problems = errors.Join(problems, fmt.Errorf("contradiction: %s is in tier %s (%s), %s in tier %s (%s), but %s",
					a.Pod, a.Tier, a.Why[0], b.Pod, b.Tier, b.Why[0], g.next[i][j]))
			case a.Rank > b.Rank:
				p.move(b, a.Rank, g.next[i][j])
				b.Wave = a.Wave + 1
			case a.Rank == b.Rank && b.Wave <= a.Wave:
				b.Wave = a.Wave + 1
				b.because(g.next[i][j])
			}
		}
	}
	return problems
}

func (p *Policy) move(pl *Placement, rank int, why string) {
	pl.Rank, pl.Tier = rank, p.name(rank)
	pl.because("moved to tier " + pl.Tier + ": " + why)
}
