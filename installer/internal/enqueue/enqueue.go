// Package enqueue stages what an installer asks for, unless the node has it or waits for it already.
//
// It sees the inbox only: what is staged, and the node's hint of what is live. What is staged is read first, see
// stage.Inbox.Hint. The last entry, by creation and id, that names a handler decides what becomes of it.
package enqueue

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"quiesce/plugin/stage"
)

// State is what became of a request.
type State string

// The states. Only Staged wrote anything.
const (
	Staged           State = "staged"
	AlreadyStaged    State = "already staged"
	AlreadyInstalled State = "already installed"
	NotInstalled     State = "not installed"
)

// Outcome is the state of a request and the entry that it is about, if there is one.
type Outcome struct {
	State State
	ID    string
}

// Payload is the files of an entry.
type Payload interface {
	Digest(ctx context.Context) error // fills in what Files lacks
	Open(index int) (io.ReadCloser, error)
}

// Install stages want, whose files are those of the payload; their digests are asked for only where there is something to
// compare them with. progress is as in stage.Inbox.Stage.
func Install(ctx context.Context, box *stage.Inbox, want stage.Manifest, p Payload, progress func(int64)) (Outcome, error) {
	want.Op = stage.Install
	pending, err := box.Pending()
	if err != nil {
		return Outcome{}, err
	}
	handler := want.Handlers[0].Name
	known, waiting := lastNaming(pending, handler)
	if !waiting {
		known, _ = lastLive(box.Hint(), handler)
	}
	if known.ID == "" {
		return put(ctx, box, want, pending, p.Open, progress)
	}
	if err := p.Digest(ctx); err != nil {
		return Outcome{}, err
	}
	switch same := known.Same(&want); {
	case same && !waiting:
		return Outcome{AlreadyInstalled, known.ID}, nil
	case same && (known.Drain || !want.Drain):
		return Outcome{AlreadyStaged, known.ID}, nil
	}
	return put(ctx, box, want, pending, p.Open, progress)
}

// Remove stages the removal of a handler, after its pods were drained if drain says so.
func Remove(ctx context.Context, box *stage.Inbox, handler string, drain bool, owner stage.Owner) (Outcome, error) {
	pending, err := box.Pending()
	if err != nil {
		return Outcome{}, err
	}
	p, waiting := lastNaming(pending, handler)
	if waiting && p.Op == stage.Remove && (p.Drain || !drain) {
		return Outcome{AlreadyStaged, p.ID}, nil
	}
	if !waiting && absent(box.Hint(), handler) {
		return Outcome{State: NotInstalled}, nil
	}
	want := stage.Manifest{Op: stage.Remove, Owner: owner, Drain: drain, Handlers: []stage.Handler{{Name: handler}}}
	return put(ctx, box, want, pending, nil, nil)
}

// absent tells whether the node knows for certain that the handler is not there and not on its way.
func absent(h *stage.Hint, handler string) bool {
	if h == nil || slices.Contains(h.Busy, handler) {
		return false
	}
	l, ok := lastLive(h, handler)
	return !ok || l.Op == stage.Remove
}

func put(ctx context.Context, box *stage.Inbox, m stage.Manifest, pending []stage.Manifest, open stage.Source, progress func(int64)) (Outcome, error) {
	m.Schema, m.ID = stage.Schema, stage.NewID(m.Op, m.Handlers[0].Name)
	m.Created = time.Now().UTC()
	for _, p := range pending {
		if covers(m, p) {
			m.Supersedes = append(m.Supersedes, p.ID)
		}
		if names(m, p) && !m.Created.After(p.Created) { // the clock went back
			m.Created = p.Created.Add(time.Nanosecond)
		}
	}
	slices.Sort(m.Supersedes)
	m, err := box.Stage(ctx, m, open, progress)
	return Outcome{Staged, m.ID}, err
}

// covers tells whether m names every handler of p.
func covers(m, p stage.Manifest) bool {
	return !slices.ContainsFunc(p.Names(), func(n string) bool { return !slices.Contains(m.Names(), n) })
}

func names(m, p stage.Manifest) bool {
	return slices.ContainsFunc(p.Names(), func(n string) bool { return slices.Contains(m.Names(), n) })
}

func lastNaming(pending []stage.Manifest, handler string) (stage.Manifest, bool) {
	return last(slices.SortedFunc(slices.Values(pending), func(a, b stage.Manifest) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	}), handler)
}

func lastLive(h *stage.Hint, handler string) (stage.Manifest, bool) {
	if h == nil {
		return stage.Manifest{}, false
	}
	return last(h.Live, handler)
}

func last(ms []stage.Manifest, handler string) (stage.Manifest, bool) {
	for _, m := range slices.Backward(ms) {
		if _, ok := m.Handler(handler); ok {
			return m, true
		}
	}
	return stage.Manifest{}, false
}
