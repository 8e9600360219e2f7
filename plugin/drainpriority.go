package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/podsapi"
)

// ranked is a runtime whose pods have their priorities, where the kubelet tells them or has told them.
type ranked struct {
	*cri.Client
	store  *drain.Store
	socket string // of the kubelet; empty: no rule asks for priorities
}

const (
	askKubelet    = 2 * time.Second // for its pods; it may be on its way down
	priorityEvery = time.Minute     // between looks while nothing is drained
)

// Snapshot is part of drain.Observer.
func (r ranked) Snapshot(ctx context.Context) (node.Snapshot, error) {
	s, err := r.Client.Snapshot(ctx)
	if err != nil || r.socket == "" {
		return s, err
	}
	known := priorities(ctx, r.store, r.socket)
	for _, p := range s.Pods {
		if n, ok := known[p.UID]; ok {
			p.Priority = &n
		}
	}
	return s, nil
}

// priorities asks the kubelet, and keeps what it says; if it does not answer, what it said last counts.
func priorities(ctx context.Context, store *drain.Store, socket string) map[string]int32 {
	ask, cancel := context.WithTimeout(ctx, askKubelet)
	defer cancel()
	last := store.Priorities()
	pods, err := podsapi.List(ask, socket)
	if err != nil {
		log.G(ctx).WithError(err).Debug("priorities are those that the kubelet told last")
		return last
	}
	now := map[string]int32{}
	for _, p := range pods {
		if p.Priority != nil {
			now[p.UID] = *p.Priority
		}
	}
	if !maps.Equal(now, last) {
		if err := store.SavePriorities(now); err != nil {
			log.G(ctx).WithError(err).Warn("priorities were not kept")
		}
	}
	return now
}

// prioritySocket is where the kubelet is asked; empty: no rule needs it.
func (c *DrainConfig) prioritySocket() string {
	if slices.ContainsFunc(c.Rules, func(r drain.Rule) bool { return r.Priority != nil }) {
		return podsapi.Socket(c.KubeletRoot)
	}
	return ""
}

// keepPriorities has them on disk for the time when the kubelet is down: a drain comes after it.
func keepPriorities(ctx context.Context, store *drain.Store, socket string) error {
	tick := time.NewTicker(priorityEvery)
	defer tick.Stop()
	for socket != "" {
		priorities(ctx, store, socket)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}
