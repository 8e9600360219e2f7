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
	left := e.state.Deadline.Sub(now) - reserve*time.Duration(len(need))
	for n, d := range slices.Sorted(maps.Values(need)) {
		share := left / time.Duration(len(need)-n)
		if d > share {
			return max(Floor, share)
		}
		left -= d
	}
	return need[step]
}

// reserve is what a step takes besides its grace: kills, sandboxes, lists.
const reserve = 500 * time.Millisecond
