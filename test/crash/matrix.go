package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Plan says which cases to try.
type Plan struct {
	Seed    uint64
	Whole   bool // every step that is not one of a file, with every action; else nothing but what is drawn
	Files   int  // how many more are drawn for each story, from all steps, changes of files among them
	Benches int
	Build   []string                   // further arguments of go build
	Limit   time.Duration              // no case begins later, but the first few; 0: none
	Skip    func(Case) bool            // nil: none is
	Note    func(Outcome, error) error // is told of each, one at a time; nil: nobody is
	Say     func(format string, args ...any)
}

// firstFew cases are tried on the slowest machine, too.
const firstFew = 4

// Report is what a plan found.
type Report struct {
	Seed    uint64         `json:"seed"`
	Steps   map[string]int `json:"steps"` // of each story
	Cases   int            `json:"cases"`
	By      map[string]int `json:"by_action"`
	Ended   map[string]int `json:"ended"`
	Wrong   []string       `json:"wrong"`
	Slowest float64        `json:"slowest_s"`
	Skipped int            `json:"skipped"` // for lack of time
	Faults  []string       `json:"faults"`  // of the benches
}

// Seed is CHAOS_SEED, or that of the part that every `make test` tries; `make chaos` draws a fresh one.
func Seed() uint64 {
	if s, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		return s
	}
	return 1130
}

// named tells a step of apply from a change of a file.
func named(step string) bool { return !strings.Contains(step, "/") }

// cases lists a story's cases.
func (p Plan) cases(r *rand.Rand, s Story, steps []string) (cases []Case) {
	var all []Case
	count := map[string]int{}
	for _, name := range steps {
		if !named(name) {
			continue
		}
		count[name]++
		for _, a := range Actions {
			if s == AtBoot && a != KillApply && a != CutPower {
				continue // there is nothing else to kill yet
			}
			all = append(all, Case{Story: s, Step: count[name], Name: name, Action: a})
		}
	}
	if p.Whole {
		cases = slices.Clone(all)
	}
	for range p.Files {
		c := Case{Story: s, Step: 1 + r.IntN(len(steps)), Action: CutPower}
		switch draw := r.IntN(8); {
		case draw == 0:
			c.Action = KillApply
		case draw < 3 && !p.Whole:
			c = all[r.IntN(len(all))]
		case draw == 3 && s != AtBoot:
			c.Action = KillShim
		case draw == 4 && s != AtBoot: // in the middle of the restart, which has no steps
			c.Action, c.Step, c.Name, c.Later = Actions[r.IntN(len(Actions))], 1, "frozen", time.Duration(r.IntN(600))*time.Millisecond
		}
		cases = append(cases, c)
	}
	for i := range cases {
		if cases[i].Action == CutPower {
			for _, d := range disks {
				if r.IntN(2) == 0 {
					cases[i].Written = append(cases[i].Written, d)
				}
			}
		}
	}
	r.Shuffle(len(cases), func(i, k int) { cases[i], cases[k] = cases[k], cases[i] })
	return cases
}

// Run tries all cases of a plan. An error is one of the benches; what is wrong is in the report.
func (p Plan) Run(ctx context.Context) (Report, error) {
	rep := Report{Seed: p.Seed, Steps: map[string]int{}, By: map[string]int{}, Ended: map[string]int{}}
	began, begun := time.Now(), 0
	first, err := Boot(ctx, "crash", p.Build...)
	if err != nil {
		return rep, err
	}
	queue, err := p.queue(ctx, first, rep.Steps)
	if err != nil {
		return rep, errors.Join(err, first.Close())
	}
	for i := range queue {
		queue[i] = slices.DeleteFunc(queue[i], func(c Case) bool { return p.Skip != nil && p.Skip(c) })
	}
	total := len(queue[0]) + len(queue[1])
	var mu sync.Mutex
	next := func(turn int) (Case, bool) {
		mu.Lock()
		defer mu.Unlock()
		q := &queue[turn%2]
		if len(*q) == 0 {
			q = &queue[(turn+1)%2]
		}
		if len(*q) == 0 || p.Limit > 0 && time.Since(began) > p.Limit && begun >= firstFew {
			return Case{}, false
		}
		begun++
		c := (*q)[0]
		*q = (*q)[1:]
		return c, true
	}
	note := func(o Outcome, err error) error {
		mu.Lock()
		defer mu.Unlock()
		rep.add(o, err)
		p.say(fmt.Sprintf("%d/%d", rep.Cases, total), o, err)
		if p.Note == nil {
			return nil
		}
		return p.Note(o, err)
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
	err = g.Wait()
	rep.Skipped = len(queue[0]) + len(queue[1])
	return rep, err
}

// queue lists the cases that add handlers, and those that take them away again: benches take one of each in turn.
func (p Plan) queue(ctx context.Context, b *Bench, count map[string]int) (queue [2][]Case, err error) {
	r := rand.New(rand.NewPCG(p.Seed, 0))
	for _, s := range []Story{Install, Uninstall, AtBoot} {
		steps, err := b.Steps(ctx, s)
		if err != nil {
			return queue, fmt.Errorf("list steps of %s: %w", s, err)
		}
		count[string(s)] = len(steps)
		turn := 0
		if s == Uninstall {
			turn = 1
		}
		queue[turn] = append(queue[turn], p.cases(r, s, steps)...)
	}
	up := queue[0]
	r.Shuffle(len(up), func(i, k int) { up[i], up[k] = up[k], up[i] })
	return queue, nil
}

// work tries cases on one bench after the other: one on which something is wrong is of no further use.
func (p Plan) work(ctx context.Context, b *Bench, next func(turn int) (Case, bool), note func(Outcome, error) error) (err error) {
	defer func() {
		if b != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	for turn := 0; ; turn++ {
		c, ok := next(turn)
		if !ok {
			return nil
		}
		if b == nil {
			if b, err = Boot(ctx, "crash", p.Build...); err != nil {
				return err
			}
		}
		o, err := b.Try(ctx, c)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := note(o, err); err != nil {
			return err
		}
		if err != nil || len(o.Wrong) > 0 {
			b.keep(ctx, c.String())
			if err := b.Close(); err != nil {
				return err
			}
			b = nil
		}
	}
}

func (p Plan) say(at string, o Outcome, err error) {
	if p.Say == nil {
		return
	}
	lines := []string{fmt.Sprintf("%s %v at %q: %s, %v", at, o.Case, o.At, o.Ended, o.Took.Round(100*time.Millisecond))}
	for _, r := range o.Reasons {
		lines = append(lines, "rejected: "+r)
	}
	for _, w := range o.Wrong {
		lines = append(lines, "WRONG: "+w)
	}
	if err != nil {
		lines = append(lines, "fault of the bench: "+err.Error())
	}
	p.Say("%s", strings.Join(lines, "\n    "))
}

func (r *Report) add(o Outcome, err error) {
	r.Cases++
	r.By[string(o.Case.Action)]++
	r.Ended[o.Ended]++
	r.Slowest = max(r.Slowest, o.Took.Seconds())
	for _, w := range o.Wrong {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%v at %q: %s", o.Case, o.At, w))
	}
	if err != nil {
		r.Faults = append(r.Faults, err.Error())
	}
}
