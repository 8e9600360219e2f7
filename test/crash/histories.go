package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Histories says which histories to play on real nodes.
type Histories struct {
	Seed      uint64
	Again     []int // numbers of some that are played before
	First     int   // the number of the first one
	Goal      int   // of the last one, plus one
	Benches   int   // nodes side by side
	Build     []string
	FirstOnly bool // end with the first that goes wrong
	Say       func(format string, args ...any)
	Note      func(Played) error // is told of each, one at a time
}

// Run plays them. An error is one of the benches.
func (h Histories) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next, again := h.First, h.Again
	var mu sync.Mutex
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(again) > 0 {
			number := again[0]
			again = again[1:]
			return number, true
		}
		if next >= h.Goal {
			return 0, false
		}
		next++
		return next - 1, true
	}
	errFound := errors.New("found")
	note := func(p Played) error {
		mu.Lock()
		defer mu.Unlock()
		h.Say("history %d: %s%s", p.Number, strings.Join(p.Events, ", "), strings.Join(append([]string{""}, p.Wrong...), "\n    WRONG: "))
		err := h.Note(p)
		if h.FirstOnly && len(p.Wrong) > 0 {
			cancel(errFound)
		}
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for range max(1, min(h.Benches, len(h.Again)+h.Goal-h.First)) {
		g.Go(func() error { return h.work(gctx, take, note) })
	}
	err := g.Wait()
	if errors.Is(context.Cause(ctx), errFound) {
		return nil
	}
	return err
}

func (h Histories) work(ctx context.Context, take func() (int, bool), note func(Played) error) (err error) {
	var b *Bench
	defer func() {
		if b != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	for {
		number, ok := take()
		if !ok {
			return nil
		}
		if b == nil {
			if b, err = Boot(ctx, "chaos", h.Build...); err != nil {
				return err
			}
		}
		p, perr := b.Play(ctx, h.Seed, number)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if perr != nil { // what was to happen could not: the node is not what it should be
			p.Wrong = append(p.Wrong, perr.Error())
		}
		if err := note(p); err != nil {
			return err
		}
		if len(p.Wrong) > 0 {
			b.keep(ctx, fmt.Sprintf("history-%d", number))
			err := b.Close()
			b = nil
			if err != nil {
				return err
			}
		}
	}
}
