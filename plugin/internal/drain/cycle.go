package drain

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// after lists the direct successors, sorted: plans are the same for the same input.
func (g *graph) after(i int) []int { return slices.Sorted(maps.Keys(g.next[i])) }

// breakCycles drops the edge that closes a cycle, and names the pods of each.
func (g *graph) breakCycles() error {
	const open, done = 1, 2
	state := make([]int, len(g.next))
	var path []int
	var problems []error
	var visit func(int)
	visit = func(i int) {
		state[i] = open
		path = append(path, i)
		for _, j := range g.after(i) {
			switch state[j] {
			case open:
				problems = append(problems, g.cycle(path[slices.Index(path, j):]))
				delete(g.next[i], j)
			case done:
			default:
				visit(j)
			}
		}
		state[i] = done
		path = path[:len(path)-1]
	}
	for i := range g.pods {
		if state[i] == 0 {
			visit(i)
		}
	}
	return errors.Join(problems...)
}

// cycle says what is wrong with the edge from the last node to the first.
func (g *graph) cycle(nodes []int) error {
	var names []string
	for _, i := range nodes {
		if i < len(g.pods) {
			names = append(names, g.pods[i].Pod.String())
		}
	}
	first, last := nodes[0], nodes[len(nodes)-1]
	why := cmp.Or(g.next[last][first], g.next[nodes[max(0, len(nodes)-2)]][last], g.next[first][nodes[min(1, len(nodes)-1)]])
	return fmt.Errorf("cycle: %s before %s (%s)", strings.Join(names, " before "), names[0], why)
}

// sorted is a topological order; the graph has no cycle.
func (g *graph) sorted() []int {
	seen := make([]bool, len(g.next))
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
	for i := range g.next {
		visit(i)
	}
	slices.Reverse(out)
	return out
}
