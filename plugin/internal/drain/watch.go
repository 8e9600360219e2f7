package drain

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/node"
)

// watch asks for the states of all containers again and again, one list for everybody who waits.
type watch struct {
	observer Observer

	mu      sync.Mutex
	waiting map[string]chan struct{}
	wake    chan struct{}
}

const (
	pollFirst = 20 * time.Millisecond
	pollLast  = 100 * time.Millisecond
	pollAfter = 500 * time.Millisecond // of a tier's first signal: lists would take from a crowded tier's signals what these need
	lookShare = 5                      // it looks for a sixth of the time at most: a list of all containers is not for nothing on a crowded node
)

func newWatch(o Observer) *watch {
	return &watch{observer: o, waiting: map[string]chan struct{}{}, wake: make(chan struct{}, 1)}
}

// start polls until ctx ends or stop is called.
func (w *watch) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (w *watch) run(ctx context.Context) {
	pause, down := pollFirst, false
	for ctx.Err() == nil {
		if w.idle() {
			select {
			case <-w.wake:
				pause = pollFirst
				w.rest(ctx, pollAfter) // who ends meanwhile is told of by his process, or by his stop call
			case <-ctx.Done():
			}
			continue
		}
		began := time.Now()
		look, cancel := context.WithTimeout(ctx, exitLimit)
		states, err := w.observer.States(look)
		cancel()
		switch {
		case err != nil && !down && ctx.Err() == nil:
			log.G(ctx).WithError(err).Warn("the runtime does not answer")
			down = true
		case err == nil && w.settle(states):
			pause, down = pollFirst, false
		case err == nil:
			down = false
		}
		pause = max(pause, lookShare*time.Since(began))
		if w.rest(ctx, pause) {
			pause = min(pause+pause/8, pollLast)
		} else {
			pause = pollFirst
		}
	}
}

// rest waits, and tells whether nobody has kicked meanwhile.
func (w *watch) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-w.wake:
	case <-ctx.Done():
	}
	return false
}

func (w *watch) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting) == 0
}

// settle tells those whose container no longer runs.
func (w *watch) settle(states map[string]node.ContainerState) (any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, ch := range w.waiting {
		if s, known := states[id]; !known || s == node.Exited {
			close(ch)
			delete(w.waiting, id)
			any = true
		}
	}
	return any
}

// gone gives a channel that is closed once the container no longer runs.
func (w *watch) gone(id string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := w.waiting[id]
	if ch == nil {
		ch = make(chan struct{})
		w.waiting[id] = ch
		if len(w.waiting) == 1 {
			w.kick()
		}
	}
	return ch
}

// end tells those who wait for a container that it no longer runs.
func (w *watch) end(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch := w.waiting[id]; ch != nil {
		close(ch)
		delete(w.waiting, id)
	}
}

// kick has the states asked for at once.
func (w *watch) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// follow ends the wait for a container as soon as its process has ended: containerd notes that some 90 ms later, and what
// follows need not wait for that. stop ends it.
func (e *Engine) follow(ctx context.Context, c *ContainerRecord, gone <-chan struct{}) (stop func()) {
	if e.Ended == nil || closed(gone) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-e.known:
		case <-ctx.Done():
			return
		}
		e.mu.Lock()
		at := c.Reach
		e.mu.Unlock()
		if at.Runc && e.Ended(ctx, at) {
			e.edit(func() { c.ended(time.Now()) })
			e.watch.end(c.ID)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
