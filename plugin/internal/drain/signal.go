package drain

import (
	"context"
	"time"

	"github.com/containerd/log"
)

// signal has the stop signal sent, unless it was. The State has it first, so there is no second one after a crash. The
// grace is counted from when it is sent: that takes its time when many are, or the node is busy.
func (e *Engine) signal(ctx context.Context, c *ContainerRecord, grace, extra time.Duration, gone <-chan struct{}) {
	if closed(gone) {
		return
	}
	deadline := c.Deadline // of the run before
	if deadline.IsZero() {
		deadline = e.within(time.Now().UTC().Add(grace + sent + extra))
	}
	for ctx.Err() == nil && !c.Signalled && time.Now().Before(deadline) {
		e.persist(ctx, func() { c.Signal, c.Deadline = time.Now().UTC(), deadline })
		at, err := e.hold(ctx, c, time.Until(deadline), extra, gone)
		if err == nil || c.Signalled {
			deadline = later(deadline, e.within(at.UTC().Add(grace)))
			e.persist(ctx, func() { c.Deadline = deadline })
			return
		}
		log.G(ctx).WithError(err).WithField("container", c.Name).Warn("the stop signal was not sent, trying again")
		wait(ctx, gone, again)
		if closed(gone) {
			return
		}
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// hold is a stop call that is given up, not cut off by a deadline, after its lease: the deadline would reach the shim
// and end the very call that signals (ttrpc passes deadlines on, and not that a caller has gone). It tells since when the
// signal is sent.
func (e *Engine) hold(ctx context.Context, c *ContainerRecord, timeout, extra time.Duration, gone <-chan struct{}) (time.Time, error) {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.Stopper.StopContainer(call, c.ID, max(timeout, Floor)) }()
	mark, end := time.NewTimer(sent+extra), time.NewTimer(lease+extra)
	defer mark.Stop()
	defer end.Stop()
	var over <-chan time.Time
	var asked chan time.Time
	for {
		select {
		case err := <-done:
			if err == nil {
				e.watch.kick()
				e.persist(ctx, func() { c.Signalled = true })
			}
			return time.Now(), err
		case <-mark.C:
			e.persist(ctx, func() { c.Signalled = true })
			asked, over = make(chan time.Time, 1), end.C
			go func() { asked <- e.sent(ctx, c.ID) }()
		case <-over:
			cancel()
			select {
			case at := <-asked:
				return at, nil
			case <-gone:
				return time.Now(), nil
			}
		case <-gone:
			return time.Now(), nil
		case <-ctx.Done():
			return time.Now(), context.Cause(ctx)
		}
	}
}

// sent waits until a signal is sent, as far as the runtime tells.
func (e *Engine) sent(ctx context.Context, id string) time.Time {
	ctx, cancel := context.WithTimeout(ctx, exitLimit)
	defer cancel()
	if err := e.Stopper.Sent(ctx, id); err != nil {
		log.G(ctx).WithError(err).WithField("id", id).Debug("the runtime does not tell when the signal was sent")
	}
	return time.Now()
}
