package gate

import (
	"fmt"
	"maps"
	"slices"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// inUse lists what keeps an entry back whose handlers pods use: a removal would orphan them. An entry that has its pods
// drained waits for that, and then for those that survived it. Handlers that a later entry names are not its business.
func inUse(e stage.Entry, last map[string]stage.Entry, in Input) (bs []Blocker) {
	if e.Op != stage.Remove && !e.Drain {
		return nil
	}
	uses, drains := Blocker{Reason: PodsUseHandler, Entry: e.ID}, Blocker{Reason: Draining, Entry: e.ID}
	for _, h := range e.Handlers {
		if last[h.Name].ID != e.ID {
			continue
		}
		for _, p := range in.Users[h.Name] {
			who := fmt.Sprintf("%s (%s)", p, h.Name)
			switch {
			case !e.Drain:
				uses.Who = append(uses.Who, who)
			case !in.Drained[h.Name]:
				drains.Who = append(drains.Who, who)
			case busy(p):
				uses.Who = append(uses.Who, who)
			}
		}
	}
	for _, b := range []Blocker{drains, uses} {
		if len(b.Who) > 0 {
			bs = append(bs, b)
		}
	}
	return bs
}

// busy tells whether anything runs in a pod. An empty sandbox is what a kubelet makes again and again behind a fence.
func busy(p *node.Pod) bool {
	return slices.ContainsFunc(p.Containers, func(c node.Container) bool { return c.Active() })
}

// toDrain lists the handlers of all entries that have their pods drained, if pods of one of them are still to be.
func toDrain(in Input) []string {
	last, all, due := stage.Last(in.Pending), map[string]bool{}, false
	for _, e := range in.Pending {
		for _, h := range e.Handlers {
			if e.Drain && last[h.Name].ID == e.ID {
				all[h.Name] = true
				due = due || !in.Drained[h.Name] && len(in.Users[h.Name]) > 0
			}
		}
	}
	if !due {
		return nil
	}
	return slices.Sorted(maps.Keys(all))
}
