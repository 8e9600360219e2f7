package drain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Line is a container of the report.
type Line struct {
	Pod       *PodRecord
	Container *ContainerRecord
	Step      *StepRecord
}

// Lines lists the containers: hard kills first, then by step, signal time and name.
func (s *State) Lines() []Line {
	var out []Line
	for _, p := range s.Pods {
		for _, c := range p.Containers {
			out = append(out, Line{p, c, s.Steps[p.Step]})
		}
	}
	hard := func(l Line) int {
		if l.Container.Outcome.Hard() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(hard(a), hard(b)), cmp.Compare(a.Pod.Step, b.Pod.Step),
			a.Container.Signal.Compare(b.Container.Signal), strings.Compare(a.Pod.String(), b.Pod.String()))
	})
	return out
}

// Summary counts outcomes.
func (s *State) Summary() map[Outcome]int {
	n := map[Outcome]int{}
	for _, p := range s.Pods {
		for _, c := range p.Containers {
			n[c.Outcome]++
		}
	}
	return n
}

// Outcomes counts them by tier; "" is a container that is not done.
func (s *State) Outcomes() map[string]map[Outcome]int {
	by := map[string]map[Outcome]int{}
	for _, l := range s.Lines() {
		if by[l.Step.Name] == nil {
			by[l.Step.Name] = map[Outcome]int{}
		}
		by[l.Step.Name][l.Container.Outcome]++
	}
	return by
}

// Took is how long the drain took, or has taken so far.
func (s *State) Took(now time.Time) time.Duration {
	if !s.Finished.IsZero() {
		now = s.Finished
	}
	return now.Sub(s.Began)
}

// Print writes the report as a table.
func (s *State) Print(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(cols ...string) { fmt.Fprintln(w, clean(strings.Join(cols, "\t"))) }
	fmt.Fprintf(w, "%s of %s: %s, %s after %s\n", s.Trigger, s.Selection, s.Phase, s.Began.Local().Format(time.DateTime), s.Took(now).Round(time.Millisecond))
	row("TIER", "POD", "CONTAINER", "SIGNAL", "EXIT", "TOOK", "GRACE", "OUTCOME", "NOTE")
	for _, l := range s.Lines() {
		c := l.Container
		row(l.Step.Name, l.Pod.String(), c.Name, s.since(c.Signal), s.since(c.Exit), took(c), graces(l.Pod), verdict(c), notes(l))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, h := range s.Hooks {
		fmt.Fprintln(out, "hook:", clean(h.String()))
	}
	for _, n := range s.Notes {
		fmt.Fprintln(out, "note:", clean(n))
	}
	return nil
}

// since is a time from the beginning of the drain.
func (s *State) since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%+.2fs", t.Sub(s.Began).Seconds())
}

func took(c *ContainerRecord) string {
	if c.Signal.IsZero() || c.Exit.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%.2fs", c.Exit.Sub(c.Signal).Seconds())
}

func graces(p *PodRecord) string {
	if p.Given == 0 || p.Given == p.Asked {
		return p.Asked.String()
	}
	return fmt.Sprintf("%s, asked %s", p.Given.Round(time.Millisecond), p.Asked)
}

func verdict(c *ContainerRecord) string {
	switch {
	case c.Outcome == "" && !c.Signal.IsZero():
		return "stopping"
	case c.Outcome == "" && !c.HookBegan.IsZero():
		return "in its preStop hook"
	case c.Outcome == "":
		return "waiting"
	case c.Code != nil:
		return fmt.Sprintf("%s %d", c.Outcome, *c.Code)
	}
	return string(c.Outcome)
}

func notes(l Line) string {
	var all []string
	for _, n := range []string{l.Container.Note, l.Container.HookError, l.Pod.Error} {
		if n != "" {
			all = append(all, n)
		}
	}
	return strings.Join(all, "; ")
}

// shownOutput is how much of a hook's output the table has, in bytes; JSON has more.
const shownOutput = 300

// String is the call and how it ended.
func (r *HookRecord) String() string {
	what := strings.TrimSpace(string(r.When)+" "+r.Tier) + " " + r.Path
	switch {
	case r.Ended.IsZero():
		return what + ": not seen to end"
	case r.Error != "":
		what += ": " + r.Error
	default:
		what += ": done"
	}
	what += " after " + r.Ended.Sub(r.Began).Round(time.Millisecond).String()
	if said := strings.TrimSpace(r.Output); said != "" {
		if over := len(said) - shownOutput; over > 0 {
			said = "…" + said[over:]
		}
		what += "; it said: " + strings.ReplaceAll(said, "\n", " | ")
	}
	return what
}
