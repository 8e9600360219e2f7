package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Result is a file of the results directory.
type Result struct {
	ID, Op, Phase, Reason string
	Handlers, Lost        []string
	Staged, Updated       time.Time
}

// Results reads all results, by handler the newest.
func (l *Lab) Results(context.Context) (map[string]Result, error) {
	files, err := filepath.Glob(l.Path(Results + "/[^.]*-*.json"))
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	all := map[string]Result{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just been pruned
		}
		var r Result
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		for _, h := range r.Handlers {
			if old, ok := all[h]; !ok || old.Updated.Before(r.Updated) {
				all[h] = r
			}
		}
	}
	return all, nil
}

// Shown is what a reader of the results sees of the node.
type Shown struct {
	PID  int
	Gate struct {
		Phase    string
		Blockers []string
	}
}

// Shown reads results/node.json.
func (l *Lab) Shown() (s Shown, err error) {
	b, err := l.ReadFile(Results + "/node.json")
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// WaitPhase waits until the newest result of a handler is in a phase.
func (l *Lab) WaitPhase(ctx context.Context, handler, phase string) (Result, error) {
	var r Result
	began := time.Now()
	err := l.Until(ctx, handler+" is "+phase, func(ctx context.Context) (bool, error) {
		rs, err := l.Results(ctx)
		r = rs[handler]
		final := r.Phase == "live" || r.Phase == "removed" || r.Phase == "rejected"
		lasted := min(time.Since(r.Updated), time.Since(began)) // it may be that of an entry before
		if final && lasted > 15*time.Second && r.Phase != phase && err == nil {
			err = errors.New("it is not going to be " + phase)
		}
		return r.Phase == phase, err
	})
	if err != nil {
		err = fmt.Errorf("%w; it is %q (%s)", err, r.Phase, r.Reason)
	}
	return r, err
}
