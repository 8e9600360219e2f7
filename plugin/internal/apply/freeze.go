package apply

import (
	"context"
	"fmt"

	"github.com/containerd/log"

	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/stage"
)

// Freezer keeps containers whose exit code matters from ending while the runtime is away.
type Freezer interface {
	Freeze(ctx context.Context) (freeze.Result, error)
	Thaw(ctx context.Context) (freeze.Result, error)
}

// freeze opens the window; one that is open already covers this restart too. It returns ErrDeferred if the containers
// cannot be frozen now, unless the restart has to be in any case.
func (a *Apply) freeze(ctx context.Context, must bool) error {
	if a.Freezer == nil || a.window {
		return nil
	}
	r, err := a.Freezer.Freeze(ctx)
	switch {
	case err == nil:
		a.window = true
	case !must:
		return fmt.Errorf("%w: %w", ErrDeferred, err)
	default:
		r.Unprotected = append(r.Unprotected, "all containers: "+err.Error())
	}
	a.frozen = r
	for _, u := range r.Unprotected {
		log.G(ctx).WithField("container", u).Warn("its exit code is not protected")
	}
	return nil
}

// thaw ends the window, if there is one. What it cannot thaw its guard will.
func (a *Apply) thaw(ctx context.Context) {
	if !a.window {
		return
	}
	a.window = false
	r, err := a.Freezer.Thaw(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Error("not everything was thawed in order")
	}
	a.frozen.To, a.frozen.Longest, a.frozen.Early = r.To, r.Longest, r.Early
	log.G(ctx).WithField("containers", r.Protected).WithField("longest", r.Longest).WithField("early", r.Early).Info("thawed")
}

// froze tells of the last window.
func (a *Apply) froze() stage.Freeze {
	f := a.frozen
	return stage.Freeze{Containers: f.Protected, From: f.From.UTC(), To: f.To.UTC(), Longest: f.Longest, Early: f.Early, Unprotected: f.Unprotected}
}

// thawIfStopped thaws before anything else when apply itself is asked to end: the node may be shutting down, and what
// is frozen cannot handle its SIGTERM.
func (a *Apply) thawIfStopped(ctx context.Context) {
	if ctx.Err() != nil {
		a.thaw(ctx)
	}
}
