// Package results reads what became of staged entries, and waits for it.
package results

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"quiesce/plugin/stage"
)

// Source is where the outcomes are. Inbox may be empty, or not visible from here.
type Source struct{ Dir, Inbox string }

// Read lists the results, newest last, and after them what is staged and has none yet, where that can be seen.
func (s Source) Read(context.Context) ([]stage.Result, error) {
	pending, err := s.pending() // first: what has left it by then has a result
	if err != nil {
		return nil, err
	}
	rs, err := stage.Results(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; in a pod, mount the node's %s/results read-only, or name it with --results", err, stage.DefaultDir)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range pending {
		if !slices.ContainsFunc(rs, func(r stage.Result) bool { return r.ID == m.ID }) {
			rs = append(rs, stage.Result{
				Schema: stage.Schema, ID: m.ID, Op: m.Op, Handlers: m.Names(), Version: m.Version(), Owner: m.Owner,
				Phase: stage.Pending, Reason: "staged, quiesce has not seen it yet", Updated: m.Created,
			})
		}
	}
	return rs, nil
}

// pending lists the inbox if it belongs to the same stage as the results.
func (s Source) pending() ([]stage.Manifest, error) {
	if s.Inbox == "" || filepath.Dir(filepath.Clean(s.Inbox)) != filepath.Dir(filepath.Clean(s.Dir)) {
		return nil, nil
	}
	box, err := stage.OpenInbox(s.Inbox)
	if err != nil {
		return nil, nil // it cannot be seen from here
	}
	defer box.Close()
	ms, err := box.Pending()
	slices.SortFunc(ms, func(a, b stage.Manifest) int { return a.Created.Compare(b.Created) })
	return ms, err
}

// Of keeps the results that name one of the handlers or are of the entry; all, if neither is given.
func Of(rs []stage.Result, handlers []string, entry string) []stage.Result {
	if len(handlers) == 0 && entry == "" {
		return rs
	}
	return slices.DeleteFunc(slices.Clone(rs), func(r stage.Result) bool {
		return r.ID != entry && !slices.ContainsFunc(handlers, func(h string) bool { return slices.Contains(r.Handlers, h) })
	})
}

// Newest is the result that decides about a handler: one that is not final yet, else the one that became final last.
// What a later entry made void does not count.
func Newest(rs []stage.Result, handler string) (stage.Result, bool) {
	var found stage.Result
	ok := false
	for _, r := range rs {
		if r.Phase == stage.Superseded || !slices.Contains(r.Handlers, handler) {
			continue
		}
		if !ok || found.Phase.Final() || !r.Phase.Final() {
			found, ok = r, true
		}
	}
	return found, ok
}
