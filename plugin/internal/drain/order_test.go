package drain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quiesce/plugin/internal/node"
)

// places maps each pod of a plan to its rank and wave.
func places(p Plan) map[*node.Pod][2]int {
	at := map[*node.Pod][2]int{}
	for _, s := range p.Steps {
		for _, pl := range s.Pods {
			at[pl.Pod] = [2]int{s.Rank, s.Wave}
		}
	}
	return at
}

// TestEveryEdgeHolds: in a plan without problems whatever an edge or an annotation says of two pods is so.
func TestEveryEdgeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pods []*node.Pod
		for i := range rapid.IntRange(2, 12).Draw(t, "pods") {
			p := tp(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), fmt.Sprint("p", i))
			p.Labels["g"] = rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "g")
			if rapid.IntRange(0, 3).Draw(t, "placed") == 0 {
				p.Annotations[annTier] = rapid.SampledFrom([]string{"10", "30", "50"}).Draw(t, "tier")
			}
			if rapid.IntRange(0, 4).Draw(t, "says") == 0 {
				key := rapid.SampledFrom([]string{annBefore, annAfter}).Draw(t, "key")
				p.Annotations[key] = rapid.SampledFrom([]string{"g=1", "g=2; g=3", "g!=1", "app=p0,g"}).Draw(t, "text")
			}
			pods = append(pods, p)
		}
		policy := DefaultPolicy()
		for range rapid.IntRange(0, 2).Draw(t, "edges") {
			side := func(name string) Selector {
				s, _ := ParseSelector(rapid.SampledFrom([]string{"g=1", "g=2", "g=3", "a/g=1", "b/g=2"}).Draw(t, name))
				return s
			}
			policy.Edges = append(policy.Edges, Edge{First: side("first"), Then: side("then")})
		}
		plan, err := New(node.Snapshot{Pods: pods}, policy, Selection{All: true})
		if plan.Pods() != len(pods) {
			t.Fatalf("%d pods of %d", plan.Pods(), len(pods))
		}
		again, _ := New(node.Snapshot{Pods: pods}, policy, Selection{All: true})
		if order(again) != order(plan) {
			t.Fatalf("two plans: %s and %s", order(plan), order(again))
		}
		if err != nil {
			return
		}
		at := places(plan)
		for _, a := range pods {
			for _, b := range pods {
				if a != b && says(policy, a, b) && slices.Compare(sl(at[a]), sl(at[b])) >= 0 {
					t.Fatalf("%s is at %v, %s at %v: %s", a, at[a], b, at[b], order(plan))
				}
			}
		}
	})
}

func sl(a [2]int) []int { return a[:] }

// says tells whether somebody wants a to stop before b: the plain meaning of edges and annotations, pair by pair.
func says(policy Policy, a, b *node.Pod) bool {
	for _, e := range policy.Edges {
		if e.First.Matches(a) && e.Then.Matches(b) {
			return true
		}
	}
	names := func(text string, p *node.Pod) bool {
		for part := range strings.SplitSeq(text, ";") {
			if s, err := ParseSelector(strings.TrimSpace(part)); err == nil && text != "" && s.Matches(p) {
				return true
			}
		}
		return false
	}
	return a.Namespace == b.Namespace && (names(a.Annotations[annBefore], b) || names(b.Annotations[annAfter], a))
}

// TestManyBeforeMany has sides of several pods in several tiers.
func TestManyBeforeMany(t *testing.T) {
	policy := DefaultPolicy()
	policy.Edges = []Edge{{First: selector(t, "g=web"), Then: selector(t, "g=db")}}
	var pods []*node.Pod
	for i := range 3 {
		web := tp("a", fmt.Sprint("web", i), label("g", "web"))
		if i == 2 {
			web.Annotations[annTier] = "30"
		}
		pods = append(pods, web, tp("a", fmt.Sprint("db", i), label("g", "db")))
	}
	plan, err := New(node.Snapshot{Pods: pods}, policy, Selection{All: true})
	if got, want := order(plan), "workloads: web0 web1 | daemonsets: web2 | daemonsets/2: db0 db1 db2"; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	pods[1].Annotations[annTier] = "10" // db0: web2 cannot be before it, web0 and web1 can
	plan, err = New(node.Snapshot{Pods: pods}, policy, Selection{All: true})
	if got, want := order(plan), "workloads: web0 web1 | workloads/2: db0 | daemonsets: web2 | daemonsets/2: db1 db2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if text := fmt.Sprint(err); !strings.Contains(text, "contradiction: a/web2") || !strings.Contains(text, "a/db0") || !strings.Contains(text, "edge 1") {
		t.Errorf("%v", err)
	}
}

// TestBothSides: pods that are on both sides of an edge have no order, which is said once.
func TestBothSides(t *testing.T) {
	var pods []*node.Pod
	for i := range 500 {
		pods = append(pods, tp("a", fmt.Sprint("p", i), label("g", "1"), annotate(annBefore, "g=1; g=1")))
	}
	plan, err := New(node.Snapshot{Pods: pods}, DefaultPolicy(), Selection{All: true})
	if len(plan.Steps) != 1 || plan.Pods() != 500 {
		t.Errorf("%d steps, %d pods", len(plan.Steps), plan.Pods())
	}
	if text := fmt.Sprint(err); !strings.Contains(text, "both sides (annotation of a/p") || strings.Count(text, "\n") > 0 {
		t.Errorf("%v", err)
	}
}
