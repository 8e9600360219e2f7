package drain

import (
	"maps"
	"slices"
	"time"
)

// limit is the grace that pods of a step may take at most. If this step and all to come fit into the time left there is
// none; else the short ones get theirs, and the long ones the same each of what is left. What a step leaves over is the
// others'.
func (e *Engine) limit(step int, pods []*PodRecord, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	need := map[int]time.Duration{step: Floor}
	for _, p := range pods {
		need[step] = max(need[step], p.Asked)
	}
	for _, p := range e.state.Pods {
		if p.Step > step {
			need[p.Step] = max(need[p.Step], p.Asked, Floor)
		}
	}
	left := e.state.Deadline.Sub(now) - e.state.reserve()*time.Duration(len(need))
	for n, d := range slices.Sorted(maps.Values(need)) {
		share := left / time.Duration(len(need)-n)
		if d > share {
			return max(Floor, share)
		}
		left -= d
	}
	return need[step]
}

// What a step takes besides its grace: kills, sandboxes, lists.
const (
	reserveLeast = 500 * time.Millisecond
	reserveMost  = 5 * time.Second
)

// reserve is what a step needs besides its grace, by what sandboxes took so far.
func (s *State) reserve() time.Duration {
	took := reserveLeast
	for _, p := range s.Pods {
		var ended time.Time
		for _, c := range p.Containers {
			ended = later(ended, c.Exit)
		}
		if !p.Stopped.IsZero() && !ended.IsZero() {
			took = max(took, p.Stopped.Sub(ended))
		}
	}
	return min(took, reserveMost)
}

// within is a time to kill that leaves what a step needs afterwards of the drain's deadline, and everybody the Floor.
func (e *Engine) within(at time.Time) time.Time {
	e.mu.Lock()
	last := e.state.Deadline.Add(-e.state.reserve())
	e.mu.Unlock()
	if at.After(last) {
		return later(last, time.Now().UTC().Add(Floor))
	}
	return at
}
