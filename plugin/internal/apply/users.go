package apply

import (
	"context"
	"slices"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

func (a *Apply) users(ctx context.Context) (map[string][]*node.Pod, error) {
	pods, err := a.CRI.List(ctx)
	if err != nil && a.owed != nil && a.used != nil {
		return a.used, nil // no pod was made since the failed restart
	}
	if err != nil {
		return nil, err
	}
	a.used = node.Snapshot{Pods: pods}.ByHandler()
	return a.used, nil
}

// anyUsed tells whether pods use a handler of the entry: for one that has its pods drained, pods in which anything
// runs: an empty sandbox is what a kubelet makes again and again behind a fence. The daemon stops those afterwards.
func anyUsed(e stage.Entry, users map[string][]*node.Pod) bool {
	return slices.ContainsFunc(e.Handlers, func(h stage.Handler) bool {
		return slices.ContainsFunc(users[h.Name], func(p *node.Pod) bool {
			return !e.Drain || slices.ContainsFunc(p.Containers, func(c node.Container) bool { return c.Active() })
		})
	})
}
