package drain

import (
	"fmt"
	"testing"

	"quiesce/plugin/internal/node"
)

// town is n pods as they are on a crowded node: applications of five pods in namespaces of twenty, whose web pods stop before
// their database and whose database stops before its cache, by annotations.
func town(n int) (pods []*node.Pod) {
	for i := range n {
		app := fmt.Sprint("app", i/5)
		p := tp(fmt.Sprint("ns", i/20), fmt.Sprint("pod", i), label("app", app), asks("30"))
		switch i % 5 {
		case 0:
			p.Labels["role"] = "cache"
		case 1:
			p.Labels["role"] = "db"
			p.Annotations[annBefore] = "app=" + app + ",role=cache"
		default:
			p.Labels["role"] = "web"
			p.Annotations[annBefore] = "app=" + app + ",role=db"
		}
		pods = append(pods, p)
	}
	return pods
}

// townPolicy has two edges of the operator's beside the default ones: between roles of a whole node.
func townPolicy(b *testing.B) Policy {
	policy := DefaultPolicy()
	for _, e := range [][2]string{{"role=web", "role=db"}, {"role=db", "role=cache"}} {
		first, err := ParseSelector(e[0])
		if err != nil {
			b.Fatal(err)
		}
		then, err := ParseSelector(e[1])
		if err != nil {
			b.Fatal(err)
		}
		policy.Edges = append(policy.Edges, Edge{First: first, Then: then})
	}
	return policy
}

// BenchmarkScalePlan plans a drain of so many pods: with edges from annotations, with the operator's edges as well, and
// without any edge.
func BenchmarkScalePlan(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		snapshot := node.Snapshot{Pods: town(n)}
		plan := func(policy Policy, pods []*node.Pod) func(*testing.B) {
			return func(b *testing.B) {
				for b.Loop() {
					p, err := New(node.Snapshot{Pods: pods}, policy, Selection{All: true})
					if err != nil || p.Pods() != n {
						b.Fatalf("%d pods, %v", p.Pods(), err)
					}
				}
			}
		}
		b.Run(fmt.Sprintf("annotations/%d", n), plan(DefaultPolicy(), snapshot.Pods))
		b.Run(fmt.Sprintf("edges/%d", n), plan(townPolicy(b), snapshot.Pods))
		plain := DefaultPolicy()
		plain.Edges = nil
		bare := town(n)
		for _, p := range bare {
			delete(p.Annotations, annBefore)
		}
		b.Run(fmt.Sprintf("none/%d", n), plan(plain, bare))
	}
}
