package drain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quiesce/plugin/stage"
)

// graph is who stops before whom: nodes are indices into placements. Many pods before many others meet in a hub, a node
// beyond the pods, so that a crowded node has no more edges than pods on both sides.
type graph struct {
	pods []*Placement
	next []map[int]string // from → to → why; a hub may leave the why to its other side
}

func (g *graph) edge(from, to int, why string) {
	if g.next[from] == nil {
		g.next[from] = map[int]string{}
	}
	if g.next[from][to] == "" {
		g.next[from][to] = why
	}
}

// reason says why a pod is on a side of an edge; nil: the other side says it.
type reason func(pod int) string

func (r reason) of(pod int) string {
	if r == nil {
		return ""
	}
	return r(pod)
}

// connect has all of first stop before all of then. Pods on both sides have no order among each other.
func (g *graph) connect(first, then []int, before, after reason) error {
	isFirst := make(map[int]bool, len(first))
	for _, i := range first {
		isFirst[i] = true
	}
	var both, only []int
	for _, i := range then {
		if isFirst[i] {
			both = append(both, i)
			delete(isFirst, i)
		} else {
			only = append(only, i)
		}
	}
	g.join(slices.DeleteFunc(slices.Clone(first), func(i int) bool { return !isFirst[i] }), then, before, after)
	g.join(both, only, before, after)
	if len(both) < 2 {
		return nil
	}
	return fmt.Errorf("cycle: %s and %s are on both sides (%s)", g.pods[both[0]].Pod, g.pods[both[1]].Pod, cmp.Or(before.of(both[0]), after.of(both[0])))
}

// join is connect for sides that share no pod.
func (g *graph) join(first, then []int, before, after reason) {
	if len(first)*len(then) <= len(first)+len(then) {
		for _, i := range first {
			for _, j := range then {
				g.edge(i, j, cmp.Or(before.of(i), after.of(j)))
			}
		}
		return
	}
	hub := len(g.next)
	g.next = append(g.next, nil)
	for _, i := range first {
		g.edge(i, hub, before.of(i))
	}
	for _, j := range then {
		g.edge(hub, j, after.of(j))
	}
}

// edges makes the graph of the configured edges and the annotations.
func (p *Policy) edges(pods []*Placement) (*graph, error) {
	g := &graph{pods: pods, next: make([]map[int]string, len(pods))}
	var problems []error
	all := make([]int, len(pods))
	for i := range pods {
		all[i] = i
	}
	for n, e := range p.Edges {
		why := func(int) string { return fmt.Sprintf("edge %d: %s before %s", n+1, e.First, e.Then) }
		problems = append(problems, g.connect(g.matching(all, e.First), g.matching(all, e.Then), why, why))
	}
	return g, errors.Join(append(problems, g.annotations())...)
}

func (g *graph) matching(among []int, sel Selector) (out []int) {
	for _, i := range among {
		if sel.Matches(g.pods[i].Pod) {
			out = append(out, i)
		}
	}
	return out
}

// said is what one or more pods of a namespace say of their neighbours.
type said struct{ namespace, key, text string }

// annotations adds what pods say of their neighbours in their own namespace.
func (g *graph) annotations() error {
	var problems []error
	owners := map[said][]int{}
	var order []said // as they are found: plans are the same for the same input
	for i, pl := range g.pods {
		for _, key := range []string{annAfter, annBefore} {
			for text := range strings.SplitSeq(pl.Pod.Annotations[key], ";") {
				if text = strings.TrimSpace(text); text == "" {
					continue
				}
				s := said{pl.Pod.Namespace, key, text}
				if owners[s] == nil {
					order = append(order, s)
				}
				if !slices.Contains(owners[s][max(0, len(owners[s])-1):], i) { // it may say so twice
					owners[s] = append(owners[s], i)
				}
			}
		}
	}
	neighbours := newNeighbours(g.pods)
	for _, s := range order {
		problems = append(problems, g.annotated(s, owners[s], neighbours))
	}
	return errors.Join(problems...)
}

func (g *graph) annotated(s said, owners []int, neighbours neighbours) error {
	sel, err := ParseSelector(s.text)
	if err != nil {
		return fmt.Errorf("pod %s: annotation %s: %w", g.pods[owners[0]].Pod, s.key, err)
	}
	why := func(i int) string {
		return fmt.Sprintf("annotation of %s: %s %s", g.pods[i].Pod, strings.TrimPrefix(s.key, stage.Prefix), s.text)
	}
	others := g.matching(neighbours.of(s.namespace, sel), sel)
	if s.key == annAfter {
		return g.connect(others, owners, nil, why)
	}
	return g.connect(owners, others, why, nil)
}

// podLabel is a label of a pod of a namespace; without key and value it is the namespace.
type podLabel struct{ namespace, key, value string }

// neighbours finds pods by namespace and label.
type neighbours map[podLabel][]int

func newNeighbours(pods []*Placement) neighbours {
	n := neighbours{}
	for i, pl := range pods {
		n.add(podLabel{namespace: pl.Pod.Namespace}, i)
		for k, v := range pl.Pod.Labels {
			n.add(podLabel{pl.Pod.Namespace, k, v}, i)
		}
	}
	return n
}

func (n neighbours) add(l podLabel, i int) { n[l] = append(n[l], i) }

// of are the pods of a namespace that may match, and few others.
func (n neighbours) of(namespace string, sel Selector) []int {
	best := n[podLabel{namespace: namespace}]
	for _, t := range sel.terms {
		if t.has || t.not {
			continue
		}
		if some := n[podLabel{namespace, t.key, t.value}]; len(some) < len(best) {
			best = some
		}
	}
	return best
}
