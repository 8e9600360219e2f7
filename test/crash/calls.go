package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"quiesce/test/node"
)

// Calls lets system calls of apply, and of a drain, fail, or kills the program there (test/trace), one after the other.
type Calls struct {
	First   int      // how many cases are done
	Again   []string // keys of those that are tried again first
	Other   int      // how many of the calls of the kinds more and other, of each program
	Every   int      // only every so many of those that change or say something, and of reads; 1: all
	Benches int
	Say     func(format string, args ...any)
	Note    func(Called) error // is told of each, one at a time
}

// Called is what became of a case.
type Called struct {
	Program, Action string
	Kind            string         // of the call: change, more, read or other (test/trace)
	At              int            // which call of the kind
	Total           map[string]int // how many the program made, by kind
	Name            int            // the number of that call; -1: it was not reached
	Wrong           []string
}

func (c Called) String() string {
	return fmt.Sprintf("%s at call %d of kind %s (number %d): %s", c.Program, c.At, c.Kind, c.Name, c.Action)
}

// Key names the case.
func (c Called) Key() string { return fmt.Sprintf("%s %s %d %s", c.Program, c.Kind, c.At, c.Action) }

const (
	tracer     = "/root/trace"
	traceApply = "[Service]\nExecStart=\nExecStart=" + tracer + " " + chaosDir + " /opt/quiesce/bin/quiesce apply --unit\n"
)

// installTracer puts the tracer before apply.
func (b *Bench) installTracer(ctx context.Context) error {
	err := b.WriteFile("/etc/systemd/system/quiesce-apply.service.d/trace.conf", []byte(traceApply), 0o644)
	if err == nil {
		_, err = b.Exec(ctx, "systemctl", "daemon-reload")
	}
	return err
}

// kinds are those of calls, as the tracer lists them.
var kinds = [...]string{"change", "more", "read", "other"}

// actions are what happens at calls of a kind. A death at one that changes nothing is one at the next that does.
func actions(kind string) []string {
	if kind == "change" || kind == "more" {
		return []string{"error", "kill"}
	}
	return []string{"error"}
}

// call runs a case.
func (b *Bench) call(ctx context.Context, c Called) (Called, error) {
	if c.Program == "drain" {
		return b.callDrain(ctx, c)
	}
	return b.callApply(ctx, c)
}

func (b *Bench) choose(c Called) error {
	return b.put("call", fmt.Sprintf("%d %s %s", c.At, c.Kind, c.Action))
}

func (b *Bench) called(c *Called) {
	n := make([]int, len(kinds))
	c.Name = -1
	_, _ = fmt.Sscan(b.got("calls"), &n[0], &n[1], &n[2], &n[3], &c.Name) // the tracer may have been killed too
	c.Total = map[string]int{}
	for i, kind := range kinds {
		c.Total[kind] = n[i]
	}
}

func (b *Bench) callApply(ctx context.Context, c Called) (Called, error) {
	story := Install
	if live, err := b.live(); err != nil || strings.Join(live, " ") != base {
		story = Uninstall
	}
	entries, err := b.stage(ctx, story)
	if err == nil {
		err = b.choose(c)
	}
	if err != nil {
		return c, err
	}
	now := func() { _, _ = b.Quiesce(ctx, "apply", "--now", "--yes") } // it may fail, that is the point
	now()
	b.called(&c)
	if s, err := b.store(); err == nil {
		pending, perr := s.Pending()
		if len(pending) > 0 || perr != nil || s.Interrupted() {
			now()
		}
		s.Close()
	}
	o := Outcome{}
	if err := errors.Join(b.letGo(ctx), b.Settle(ctx)); err != nil {
		c.Wrong = append(c.Wrong, err.Error())
		return c, nil
	}
	b.judge(ctx, &o, entries)
	c.Wrong = o.Wrong
	return c, nil
}

// callDrain drains the node's pods; afterwards there is a report or none, and the node takes pods again.
func (b *Bench) callDrain(ctx context.Context, c Called) (Called, error) {
	if err := errors.Join(b.ensureWorker(ctx), b.choose(c)); err != nil {
		return c, err
	}
	b.worker = nil
	_, _ = b.Exec(ctx, tracer, chaosDir, "/opt/quiesce/bin/quiesce", "drain", "--all", "--yes", "--deadline", "20s") // it may fail
	b.called(&c)
	wrong := func(format string, args ...any) { c.Wrong = append(c.Wrong, fmt.Sprintf(format, args...)) }
	out, err := b.Quiesce(ctx, "report", "--output", "json")
	if exit, ok := errors.AsType[*node.ExitError](err); err != nil && (!ok || exit.Code != 2) {
		wrong("report: %v: %s", err, out)
	}
	if _, err := b.Quiesce(ctx, "resume"); err != nil {
		wrong("resume: %v", err)
	}
	if err := b.runs(ctx, ""); err != nil {
		wrong("%v", err)
	}
	if left := b.leftovers(); len(left) > 0 {
		wrong("left over: %s", strings.Join(left, " "))
	}
	return c, nil
}

// Run tries all cases. An error is one of the benches.
func (p Calls) Run(ctx context.Context) error {
	first, err := p.boot(ctx)
	if err != nil {
		return err
	}
	queue, err := p.queue(ctx, first)
	if err != nil {
		return errors.Join(err, first.Close())
	}
	var mu sync.Mutex
	again := slices.DeleteFunc(slices.Clone(queue), func(c Called) bool { return !slices.Contains(p.Again, c.Key()) })
	queue = append(again, queue[min(p.First, len(queue)):]...)
	total := len(queue)
	next := func() (c Called, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(queue) == 0 {
			return c, false
		}
		c, queue = queue[0], queue[1:]
		return c, true
	}
	note := func(c Called) error {
		mu.Lock()
		defer mu.Unlock()
		p.Say("%d left of %d: %v%s", len(queue), total, c, strings.Join(append([]string{""}, c.Wrong...), "\n    WRONG: "))
		return p.Note(c)
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range max(1, p.Benches) {
		g.Go(func() error {
			b := first
			if i > 0 {
				b = nil
			}
			return p.work(ctx, b, next, note)
		})
	}
	return g.Wait()
}

func (p Calls) boot(ctx context.Context) (*Bench, error) {
	b, err := Boot(ctx, "calls")
	if err != nil {
		return nil, err
	}
	if err := b.installTracer(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// queue counts the calls of a run in which nothing happens.
func (p Calls) queue(ctx context.Context, b *Bench) (all []Called, err error) {
	for _, program := range []string{"apply", "drain"} {
		total := map[string]int{}
		for range 2 { // apply's first adds what its second takes away
			c, err := b.call(ctx, Called{Program: program, Kind: "change", Action: "error"})
			if err = errors.Join(err, errOf(c.Wrong)); err != nil {
				return nil, fmt.Errorf("count calls of %s: %w", program, err)
			}
			for kind, n := range c.Total {
				total[kind] = max(total[kind], n)
			}
		}
		p.Say("%s makes %v calls", program, total)
		for _, kind := range kinds {
			every := max(1, p.Every)
			if kind == "more" || kind == "other" {
				every = max(1, total[kind]/max(1, p.Other))
			}
			for at := 1; at <= total[kind]; at += every {
				for _, action := range actions(kind) {
					all = append(all, Called{Program: program, Kind: kind, Action: action, At: at})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Called) int {
		return cmp.Or(cmp.Compare(a.Program, b.Program), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.At, b.At))
	})
	return all, nil
}

func errOf(wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

func (p Calls) work(ctx context.Context, b *Bench, next func() (Called, bool), note func(Called) error) (err error) {
	defer func() {
		if b != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	for {
		c, ok := next()
		if !ok {
			return nil
		}
		if b == nil {
			if b, err = p.boot(ctx); err != nil {
				return err
			}
		}
		got, cerr := b.call(ctx, c)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if cerr != nil {
			got.Wrong = append(got.Wrong, cerr.Error())
		}
		if err := note(got); err != nil {
			return err
		}
		if len(got.Wrong) > 0 {
			b.keep(ctx, got.String())
			err := b.Close()
			b = nil
			if err != nil {
				return err
			}
		}
	}
}
