package results

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quiesce/plugin/stage"
)

// Interval is how often results are read while waiting.
const Interval = 500 * time.Millisecond

// Target is what someone waits for: a handler or an entry.
type Target struct{ Handler, Entry string }

func (t Target) String() string {
	if t.Entry != "" {
		return "entry " + t.Entry
	}
	return "handler " + t.Handler
}

func (t Target) find(rs []stage.Result) (stage.Result, bool) {
	if t.Entry == "" {
		return Newest(rs, t.Handler)
	}
	i := slices.IndexFunc(rs, func(r stage.Result) bool { return r.ID == t.Entry })
	if i < 0 {
		return stage.Result{}, false
	}
	return rs[i], true
}

func (t Target) describe(rs []stage.Result) string {
	r, ok := t.find(rs)
	switch {
	case !ok:
		return t.String() + ": nothing staged is known of it yet"
	case r.Reason != "":
		return fmt.Sprintf("%s: %s: %s", t, r.Phase, r.Reason)
	default:
		return fmt.Sprintf("%s: %s", t, r.Phase)
	}
}

// Open is the handlers of what is not final yet; if everything is final, of the entry that became so last.
func Open(rs []stage.Result) []Target {
	open := slices.DeleteFunc(slices.Clone(rs), func(r stage.Result) bool { return r.Phase.Final() })
	if len(open) == 0 && len(rs) > 0 {
		open = rs[len(rs)-1:]
	}
	var ts []Target
	for _, r := range open {
		for _, h := range r.Handlers {
			if t := (Target{Handler: h}); !slices.Contains(ts, t) {
				ts = append(ts, t)
			}
		}
	}
	return ts
}

// Wait reads until every target is final and tells each change of what it waits for. Without targets it waits for
// what Open names, and for something to be there at all. A target that was not brought about is an error.
func Wait(ctx context.Context, read func(context.Context) ([]stage.Result, error), ts []Target, say func(string)) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	said := map[Target]string{}
	for {
		rs, err := read(ctx)
		if err != nil {
			return err
		}
		if len(ts) == 0 {
			ts = Open(rs)
		}
		for _, t := range ts {
			if now := t.describe(rs); said[t] != now {
				said[t] = now
				say(now)
			}
		}
		if len(ts) > 0 && !slices.ContainsFunc(ts, func(t Target) bool { r, _ := t.find(rs); return !r.Phase.Final() }) {
			return verdict(ts, rs)
		}
		select {
		case <-ctx.Done():
			return gaveUp(ctx, ts, rs)
		case <-tick.C:
		}
	}
}

// verdict is the error of the first target that did not come about.
func verdict(ts []Target, rs []stage.Result) error {
	for _, t := range ts {
		if r, _ := t.find(rs); r.Phase != stage.IsLive && r.Phase != stage.Removed {
			return fmt.Errorf("wait: %s", t.describe(rs))
		}
	}
	return nil
}

func gaveUp(ctx context.Context, ts []Target, rs []stage.Result) error {
	for _, t := range ts {
		if r, _ := t.find(rs); !r.Phase.Final() {
			return fmt.Errorf("wait: %w; %s", context.Cause(ctx), t.describe(rs))
		}
	}
	return fmt.Errorf("wait: %w; nothing is staged", context.Cause(ctx))
}
