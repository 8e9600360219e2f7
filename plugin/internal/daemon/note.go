package daemon

import (
	"context"
	"time"

	"github.com/containerd/log"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/stage"
)

// lookEach is how often the runtime is found anew while nothing tells that it is another one.
const lookEach = 2 * time.Minute

// noted is what was left for readers of the results.
type noted struct {
	written time.Time
	looked  time.Time // for the runtime; zero: it may be another one now
	nri     time.Time // since when NRI was as it was then
	found   *profile.Found
}

// note leaves for readers of the results, who cannot ask the daemon, how the runtime is found and what the gate does. It
// writes only what has changed, once a tick at most. Only Run calls it.
func (d *Daemon) note(ctx context.Context, dec gate.Decision, now time.Time) {
	n := &d.noted
	if d.Found == nil || now.Sub(n.written) < tick {
		return
	}
	n.written = now
	if since := d.NRI().Since; now.Sub(n.looked) >= lookEach || !since.Equal(n.nri) {
		n.looked, n.nri, n.found = now, since, d.Found()
	}
	g := stage.GateState{Phase: string(dec.Phase), Since: dec.Since.UTC()}
	for _, b := range dec.Blockers {
		if b.Entry == "" { // else its result says so
			g.Blockers = append(g.Blockers, b.String())
		}
	}
	err := d.Store.PublishNode(struct {
		*profile.Found
		Gate stage.GateState `json:"gate"`
	}{n.found, g})
	if err != nil {
		log.G(ctx).WithError(err).Warn("what was found was not written to the results")
	}
}
