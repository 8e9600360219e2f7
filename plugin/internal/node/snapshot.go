package node

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// NewSnapshot makes a snapshot of a complete list that was begun at the given time.
func NewSnapshot(pods []*Pod, began time.Time) Snapshot {
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), strings.Compare(a.ID, b.ID))
	})
	return Snapshot{Pods: pods, Listed: began}
}
