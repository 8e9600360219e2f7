package freeze

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"quiesce/plugin/stage"
)

// window is the time in which containers are frozen.
type window struct {
	tree    *stage.Tree
	list    list
	limit   time.Time
	began   time.Time // of the first freeze
	settled time.Time // when everything was frozen
	held    map[string]*held
	unfit   map[string]string // container → why it is not protected
	stop    func(context.Context) error
	release func() error // of the inhibitor; nil: there is none
}

// held is a container that is frozen, or about to be.
type held struct {
	*cgroup
	member
}

// compare finds what has to be frozen too, and what has ended since the survey; it lets go of what the survey lacks.
func (w *window) compare(s survey) (more []*held, ended []candidate, err error) {
	live := map[string]bool{}
	for _, c := range s.live {
		live[c.id] = true
		if w.held[c.id] != nil || w.unfit[c.id] != "" {
			continue
		}
		h, why, err := target(c)
		switch {
		case err != nil:
			return nil, nil, errors.Join(err, closeAll(more))
		case why != "":
			w.unfit[c.id] = c.name + ": " + why
		case h != nil:
			more = append(more, h)
		default:
			ended = append(ended, c)
		}
	}
	for id, h := range w.held {
		if !live[id] {
			err = errors.Join(err, w.drop(h))
		}
	}
	return more, ended, err
}

// dropEnded lets go at once of those that have ended just before they were frozen: their shim has to clean up now.
func (w *window) dropEnded(hs []*held) (left []*held, errs error) {
	for _, h := range hs {
		if h.Init.Lives() {
			left = append(left, h)
		} else {
			errs = errors.Join(errs, w.drop(h))
		}
	}
	return left, errs
}

// drop thaws one container that has ended. It stays on the list, which does no harm.
func (w *window) drop(h *held) error {
	delete(w.held, h.Container)
	_, err := h.cgroup.thaw()
	return errors.Join(err, h.files.Close())
}

func closeAll(hs []*held) (errs error) {
	for _, h := range hs {
		errs = errors.Join(errs, h.files.Close())
	}
	return errs
}

func (w *window) result(s survey, lost map[string]string) Result {
	w.settled = time.Now()
	r := Result{Protected: len(w.held), From: w.settled}
	r.Unprotected = append(r.Unprotected, s.unprotected...)
	r.Unprotected = append(r.Unprotected, slices.Sorted(maps.Values(w.unfit))...)
	r.Unprotected = append(r.Unprotected, slices.Sorted(maps.Values(lost))...)
	return r
}

// stopFor is how long the end of the guard is waited for.
const stopFor = 5 * time.Second

// close thaws first; everything else can wait.
func (w *window) close(ctx context.Context) (r Result, err error) {
	r = Result{Protected: len(w.held), From: w.settled, To: time.Now()}
	var errs error
	for _, h := range w.held {
		was, err := h.cgroup.thaw()
		r.Early = r.Early || !was && h.Init.Lives()
		errs = errors.Join(errs, err, h.files.Close())
	}
	if !w.began.IsZero() {
		r.Longest = time.Since(w.began)
	}
	if w.release != nil {
		defer func() { err = errors.Join(err, w.release()) }()
	}
	if errs != nil { // the guard goes on trying
		return r, errors.Join(errs, w.tree.Close())
	}
	errs = dropList(w.tree, w.list.Window)
	ctx, cancel := context.WithTimeout(ctx, stopFor)
	defer cancel()
	return r, errors.Join(errs, w.stop(ctx), w.tree.Close())
}
