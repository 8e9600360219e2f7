package daemon

import (
	"context"
	"slices"
	"strings"
	"time"

	"quiesce/plugin/internal/node"
)

// stopsEvery is how often stops are looked at while nothing is pending: only to know whether they can be seen.
const stopsEvery = 5 * time.Minute

// stops lists the stops that the runtime counts; the kubelet's own are seen by its pods API too, where it has one. Where
// none is seen they do not keep the gate closed, and the status says so.
func (d *Daemon) stops(ctx context.Context, work bool) []string {
	if d.Stops == nil {
		d.blind("nobody looks")
		return nil
	}
	if !work && time.Since(d.looked) < stopsEvery {
		return nil
	}
	d.looked = time.Now()
	who, err := d.Stops(ctx)
	if err != nil {
		if slices.ContainsFunc(d.State.Snapshot().Pods, func(p *node.Pod) bool { return p.Spec != nil }) {
			d.blind("")
			return nil
		}
		d.blind(strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	d.blind("")
	return who
}

func (d *Daemon) blind(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unseen = why
}
