package results

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quiesce/plugin/stage"
)

func result(id string, phase stage.Phase, reason string, handlers ...string) stage.Result {
	return stage.Result{ID: id, Phase: phase, Reason: reason, Handlers: handlers}
}

func TestNewest(t *testing.T) {
	tests := map[string]struct {
		rs   []stage.Result
		want string
	}{
		"none":                      {nil, ""},
		"of another":                {[]stage.Result{result("x", stage.IsLive, "", "other")}, ""},
		"the last final":            {[]stage.Result{result("x", stage.IsLive, "", "h"), result("y", stage.Removed, "", "h")}, "y"},
		"one that is open":          {[]stage.Result{result("x", stage.Pending, "", "h"), result("y", stage.IsLive, "", "h")}, "x"},
		"the last open":             {[]stage.Result{result("x", stage.Pending, "", "h"), result("y", stage.Applying, "", "h")}, "y"},
		"never one that is void":    {[]stage.Result{result("x", stage.IsLive, "", "h"), result("y", stage.Superseded, "", "h")}, "x"},
		"of an entry with two":      {[]stage.Result{result("x", stage.IsLive, "", "g", "h")}, "x"},
		"rejected after it was new": {[]stage.Result{result("x", stage.IsLive, "", "h"), result("y", stage.Rejected, "", "h")}, "y"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := Newest(tt.rs, "h"); got.ID != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got.ID, ok, tt.want)
			}
		})
	}
}

// script plays one list of results after the other, and the last one for ever.
func script(steps ...[]stage.Result) func(context.Context) ([]stage.Result, error) {
	i := 0
	return func(context.Context) ([]stage.Result, error) {
		now := steps[min(i, len(steps)-1)]
		i++
		return now, nil
	}
}

func TestWait(t *testing.T) {
	h := []Target{{Handler: "h"}}
	pending := []stage.Result{result("x", stage.Pending, "installers in flight", "h")}
	live := []stage.Result{result("x", stage.IsLive, "", "h")}
	bad := []stage.Result{result("x", stage.Rejected, "no such shim", "h")}
	tests := map[string]struct {
		read    func(context.Context) ([]stage.Result, error)
		targets []Target
		err     string // part of the error; empty: none
		said    []string
		takes   time.Duration
	}{
		"at once":           {script(live), h, "", []string{"handler h: live"}, 0},
		"in the end":        {script(nil, pending, pending, live), h, "", []string{"handler h: nothing staged is known of it yet", "handler h: pending: installers in flight", "handler h: live"}, 3 * Interval},
		"rejected":          {script(pending, bad), h, "handler h: rejected: no such shim", nil, Interval},
		"an entry":          {script(pending, live), []Target{{Entry: "x"}}, "", nil, Interval},
		"an entry made so":  {script([]stage.Result{result("x", stage.Superseded, "by y", "h")}), []Target{{Entry: "x"}}, "entry x: superseded: by y", nil, 0},
		"removed":           {script([]stage.Result{result("x", stage.Removed, "", "h")}), h, "", nil, 0},
		"too long":          {script(pending), h, "out of patience; handler h: pending: installers in flight", nil, 10 * time.Second},
		"nothing ever":      {script(nil), nil, "out of patience; nothing is staged", nil, 10 * time.Second},
		"what is open":      {script(nil, pending, live), nil, "", []string{"handler h: pending: installers in flight", "handler h: live"}, 2 * Interval},
		"what was last":     {script(bad), nil, "rejected: no such shim", nil, 0},
		"all of them":       {script(live), []Target{{Handler: "h"}, {Handler: "g"}}, "handler g: nothing staged is known of it yet", nil, 10 * time.Second},
		"void and replaced": {script(pending, []stage.Result{result("x", stage.Superseded, "", "h"), result("y", stage.IsLive, "", "h")}), nil, "", nil, Interval},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("out of patience"))
				defer cancel()
				var said []string
				began := time.Now()
				err := Wait(ctx, tt.read, tt.targets, func(s string) { said = append(said, s) })
				if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error: %v, want %q", err, tt.err)
				}
				if tt.said != nil && !slices.Equal(said, tt.said) {
					t.Errorf("said %q, want %q", said, tt.said)
				}
				if got := time.Since(began); got != tt.takes {
					t.Errorf("took %s, want %s", got, tt.takes)
				}
			})
		})
	}
}

func TestWaitTellsWhatCannotBeRead(t *testing.T) {
	broken := errors.New("broken")
	err := Wait(t.Context(), func(context.Context) ([]stage.Result, error) { return nil, broken }, nil, func(string) {})
	if !errors.Is(err, broken) {
		t.Errorf("error: %v", err)
	}
}
