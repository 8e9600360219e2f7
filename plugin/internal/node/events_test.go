package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// lifeOf is what NRI tells of a pod.
func lifeOf(id string) (all []Event) {
	p, c := &Pod{ID: id, Namespace: "a", Name: id}, &Container{ID: "c-" + id, Name: "main"}
	for _, k := range []EventKind{PodRun, ContainerCreate, ContainerStart, ContainerStop, ContainerRemove, PodStop, PodRemove} {
		all = append(all, Event{Kind: k, Pod: p, Container: c})
	}
	return all
}

// TestEventsLostTwiceAndOutOfOrder: whatever becomes of events, a list that is begun after them says what there is; and what
// events say of a pod that is not removed, no older list takes back.
func TestEventsLostTwiceAndOutOfOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var told []Event
		for i := range 1 + r.IntN(4) {
			for _, e := range lifeOf(fmt.Sprint("p", i)) {
				for range r.IntN(3) { // lost, once, twice
					told = append(told, e)
				}
			}
		}
		r.Shuffle(len(told), func(i, k int) { told[i], told[k] = told[k], told[i] })
		s, last := NewState(), map[string]EventKind{}
		for i, e := range told {
			e.At = now.Add(time.Duration(i+1) * time.Second)
			s.Apply(e)
			last[e.Pod.ID] = e.Kind
		}
		s.Replace(nil, now) // begun before them
		for id, kind := range last {
			if there := slices.Contains(podIDs(s), id); there != (kind != PodRemove) {
				t.Fatalf("%s, of which event %d came last, is there: %v", id, kind, there)
			}
		}
		s.Replace([]*Pod{{ID: "p0", Ready: true}, {ID: "other", Ready: true}}, now.Add(time.Hour))
		if got := podIDs(s); !slices.Equal(got, []string{"other", "p0"}) {
			t.Fatalf("after a list pods are %v", got)
		}
	}
}

// podIDs are the ids of a state's pods.
func podIDs(s *State) (ids []string) {
	for _, p := range s.Snapshot().Pods {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	return ids
}
