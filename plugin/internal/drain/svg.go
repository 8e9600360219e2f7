package drain

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// Measures of the picture.
const (
	svgRow    = 14
	svgLeft   = 300
	svgPlot   = 800
	svgRight  = 300
	svgWidth  = svgLeft + svgPlot + svgRight
	svgTop    = 84
	svgBottom = 30
)

// SVG draws the drain: one bar per container from signal to exit, tiers shaded, hard kills marked.
func (s *State) SVG(out io.Writer, now time.Time) error {
	lines := s.byStep()
	end := max(s.Took(now), time.Second)
	for _, l := range lines {
		end = max(end, l.Container.Exit.Sub(s.Began))
	}
	d := &drawing{state: s, scale: float64(svgPlot) / end.Seconds(), bottom: svgTop + svgRow*len(lines)}
	fmt.Fprintf(&d.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="11">`+"\n",
		svgWidth, d.bottom+svgBottom)
	d.b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	d.title(now)
	d.tiers(lines)
	d.axis(end)
	for i, l := range lines {
		d.row(svgTop+i*svgRow, l, now)
	}
	d.b.WriteString("</svg>\n")
	_, err := io.WriteString(out, d.b.String())
	return err
}

// byStep lists the lines in the order of the drain: by step, signal, and exit; those without an exit are last.
func (s *State) byStep() []Line {
	out := s.Lines()
	slices.SortStableFunc(out, func(a, b Line) int {
		open := func(l Line) int {
			if l.Container.Exit.IsZero() {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.Pod.Step, b.Pod.Step), cmp.Compare(open(a), open(b)), a.Container.Exit.Compare(b.Container.Exit))
	})
	return out
}

type drawing struct {
	b      strings.Builder
	state  *State
	scale  float64 // per second
	bottom int
}

func (d *drawing) x(t time.Time) float64 { return svgLeft + t.Sub(d.state.Began).Seconds()*d.scale }

func (d *drawing) text(x float64, y int, anchor, extra, text string) {
	fmt.Fprintf(&d.b, `<text x="%.1f" y="%d" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, extra, html.EscapeString(clean(text)))
}

func (d *drawing) title(now time.Time) {
	s, hard, all := d.state, 0, 0
	for o, n := range s.Summary() {
		all += n
		if o.Hard() {
			hard += n
		}
	}
	d.text(10, 20, "start", `font-size="15" font-weight="bold"`, fmt.Sprintf("Drain of %s (%s)", s.Selection, s.Trigger))
	d.text(10, 38, "start", "", fmt.Sprintf("%s, took %.1f s, %d containers in %d tiers, %d killed hard",
		s.Began.UTC().Format("2006-01-02 15:04:05 UTC"), s.Took(now).Seconds(), all, len(s.Steps), hard))
	x := 10.0
	for _, k := range []struct{ color, text string }{
		{barFine, "signal to exit"},
		{barHook, "preStop hook"},
		{barHard, "killed or unkillable"},
		{barOpen, "ended otherwise"},
		{tierTime, "time of the tier"},
	} {
		fmt.Fprintf(&d.b, `<rect x="%.1f" y="47" width="10" height="10" fill="%s"/>`+"\n", x, k.color)
		d.text(x+14, 56, "start", "", k.text)
		x += 125
	}
	d.text(x, 56, "start", `fill="#777"`, "a number after a bar: exit code")
}

const (
	barFine = "#4c8dca"
	barHook = "#b9a3d9"
	barHard = "#d0342c"
	barOpen = "#9a9a9a"

	tierTime = "#d5e3c8"
)

// tiers shades the rows of each tier, darker for the time in which it was drained, and says on the right what it was.
func (d *drawing) tiers(lines []Line) {
	y := svgTop
	for i, st := range d.state.Steps {
		n, hard := 0, 0
		for _, l := range lines {
			if l.Pod.Step == i {
				n++
				if l.Container.Outcome.Hard() {
					hard++
				}
			}
		}
		h, shade := n*svgRow, []string{"#f4f6f8", "#e9edf1"}[i%2]
		fmt.Fprintf(&d.b, `<rect x="0" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", y, svgWidth, h, shade)
		if !st.Began.IsZero() && !st.Ended.IsZero() {
			fmt.Fprintf(&d.b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", d.x(st.Began), y, d.x(st.Ended)-d.x(st.Began), h, tierTime)
		}
		if n > 0 {
			d.tier(y, st, n, hard)
		}
		y += h
	}
}

// tier writes the name of a tier of n rows, and below it what it was, if there is room.
func (d *drawing) tier(y int, st *StepRecord, n, hard int) {
	d.text(svgWidth-8, y+11, "end", `font-weight="bold" fill="#333"`, st.Name)
	facts := []string{fmt.Sprintf("%d containers", n)}
	if !st.Began.IsZero() && !st.Ended.IsZero() {
		facts = append(facts, fmt.Sprintf("%.1f s", st.Ended.Sub(st.Began).Seconds()))
	}
	if hard > 0 {
		facts = append(facts, fmt.Sprintf("%d killed", hard))
	}
	for i, f := range facts[:min(len(facts), n-1)] {
		d.text(svgWidth-8, y+11+(i+1)*svgRow, "end", `fill="#555"`, f)
	}
}

func (d *drawing) axis(end time.Duration) {
	step := time.Second
	for _, s := range []int{1, 2, 5, 10, 20, 30, 60, 120, 300, 600} {
		if step = time.Duration(s) * time.Second; end/step <= 12 {
			break
		}
	}
	for t := time.Duration(0); t <= end; t += step {
		x := svgLeft + t.Seconds()*d.scale
		fmt.Fprintf(&d.b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#bbb" stroke-dasharray="2,3"/>`+"\n", x, svgTop-6, x, d.bottom)
		d.text(x, svgTop-10, "middle", `fill="#555"`, seconds(t))
		d.text(x, d.bottom+14, "middle", `fill="#555"`, seconds(t))
	}
}

func seconds(t time.Duration) string { return fmt.Sprintf("%.0f s", t.Seconds()) }

// row is a container: its label, its bar, and all of it in words for a pointer that rests there.
func (d *drawing) row(y int, l Line, now time.Time) {
	c := l.Container
	words := fmt.Sprintf("%s %s: signal %s, exit %s, grace %s, %s", l.Pod, c.Name, d.state.since(c.Signal), d.state.since(c.Exit), graces(l.Pod), verdict(c))
	fmt.Fprintf(&d.b, "<g><title>%s</title>\n", html.EscapeString(clean(words)))
	d.bar(y, l, now)
	d.b.WriteString("</g>\n")
}

func (d *drawing) bar(y int, l Line, now time.Time) {
	c := l.Container
	label := l.Pod.String()
	if len(l.Pod.Containers) > 1 {
		label += " " + c.Name
	}
	if r := []rune(label); len(r) > 46 {
		label = string(r[:45]) + "…"
	}
	d.text(svgLeft-6, y+11, "end", "", label)
	if !c.HookBegan.IsZero() && !c.HookEnded.IsZero() {
		d.span(y, c.HookBegan, c.HookEnded, barHook)
	}
	if c.Signal.IsZero() {
		if !c.Exit.IsZero() && c.Exit.Before(d.state.Began) {
			return
		}
		d.text(svgLeft+4, y+11, "start", `fill="#777"`, verdict(c))
		return
	}
	end, color := c.Exit, barFine
	if end.IsZero() {
		end = now
		if !c.Kill.IsZero() {
			end = c.Kill.Add(KillSlack)
		}
	}
	switch {
	case c.Outcome.Hard():
		color = barHard
	case c.Outcome != Exited:
		color = barOpen
	}
	d.span(y, c.Signal, end, color)
	if c.Outcome.Hard() {
		d.text(d.x(end)+3, y+11, "start", `fill="`+barHard+`" font-weight="bold"`, "✕ "+string(c.Outcome))
	} else if color == barOpen {
		d.text(d.x(end)+3, y+11, "start", `fill="#555"`, verdict(c))
	} else if c.Code != nil && *c.Code != 0 {
		d.text(d.x(end)+3, y+11, "start", `fill="#777" font-size="9"`, fmt.Sprint(*c.Code))
	}
}

func (d *drawing) span(y int, from, to time.Time, color string) {
	fmt.Fprintf(&d.b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`+"\n",
		d.x(from), y+3, max(to.Sub(from).Seconds()*d.scale, 1.5), svgRow-6, color)
}
