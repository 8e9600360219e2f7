package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// Phase of the gate.
type Phase string

// The phases.
const (
	Idle       Phase = "idle"       // nothing is pending
	Collecting Phase = "collecting" // entries are pending, blockers or the quiet period keep the gate closed
	Applying   Phase = "applying"   // apply has it
	Held       Phase = "held"       // an operator or a drain vetoes
)

// Reasons of blockers.
const (
	NotSynchronized    = "not synchronized"
	InstallersInFlight = "installers in flight"
	Draining           = "draining"
	StopInFlight       = "stop in flight"
	HeldBy             = "held"
	PodsUseHandler     = "pods use the handler"
	QuietPeriod        = "quiet period"
	LastTryFailed      = "last try failed"
)

// Blocker is one reason why entries are not applied now.
type Blocker struct {
	Reason string    `json:"reason"`
	Who    []string  `json:"who,omitempty"`
	Entry  string    `json:"entry,omitempty"` // the only entry it keeps back; empty: all
	Stuck  bool      `json:"stuck,omitempty"` // an installer takes longer than installerTimeout
	Since  time.Time `json:"since"`
}

// String is for results and logs.
func (b Blocker) String() string {
	s := b.Reason
	if len(b.Who) > 0 {
		s += ": " + strings.Join(b.Who, ", ")
	}
	if b.Stuck {
		s += " (stuck)"
	}
	return s
}

// Policy is what the operator sets.
type Policy struct {
	Quiet     time.Duration // how long nothing may object before the gate opens
	MaxDefer  time.Duration // after this long installers in flight no longer keep it closed; 0: never
	Undecided time.Duration // how long pods that only might be installers, or that are being stopped, keep it closed, together
	Lead      time.Duration // how long before the end of the quiet period apply may begin to prepare; it restarts nothing before
}

// Input is what is known at a moment.
type Input struct {
	Now        time.Time
	Pending    []stage.Entry // in the order in which they count
	Unfinished bool          // a journal is there and no apply runs: something is to be verified or rolled back
	Died       bool          // the last apply died, wherever: another one has to end it
	Answers    bool          // the runtime answers
	Synced     string        // why pods are not known well enough; empty: they are
	Installers []node.Installer
	Users      map[string][]*node.Pod // by handler
	Hold       string                 // who holds, and why
	Stopping   []*node.Pod            // that the kubelet stops right now; a restart would begin their grace anew (containerd#12600)
	Draining   bool                   // a drain that is none of the gate's
	Stops      []string               // calls of the runtime that stop something, as far as they can be seen
	Emptying   bool                   // the gate's own drain is at work
	Drained    map[string]bool        // handlers whose pods the gate's own drain has stopped; its fence is up
	Running    bool                   // apply runs
	Fault      string                 // why the last apply failed, as long as the next one is not due
}

// Decision is what to do.
type Decision struct {
	Phase    Phase
	Since    time.Time // of the phase
	Blockers []Blocker
	Open     bool          // start apply now
	Due      time.Time     // with Open: the end of the quiet period, before which nothing of the host may change; zero: it is over
	Ready    []string      // with Open: the entries it may apply
	Drain    []string      // drain the pods of these handlers now
	Forced   bool          // maxDefer has passed: installers in flight no longer count
	Tired    bool          // undecided pods were waited for long enough
	Check    time.Duration // when to decide again at the latest; 0: on the next event
}

// Gate remembers since when things are as they are.
type Gate struct {
	policy Policy

	phase     Phase
	changed   time.Time
	since     map[string]time.Time // of each blocker
	quiet     time.Time            // since when nothing objects; zero: something does
	pending   time.Time            // since when something is pending
	undecided time.Time            // since when only undecided pods object
	stops     time.Time            // since when pods are being stopped without a pause
}

// New makes a gate that has just begun to look.
func New(p Policy, now time.Time) *Gate {
	return &Gate{policy: p, phase: Idle, changed: now, since: map[string]time.Time{}}
}

// Decide may be called as often as one likes; only one goroutine may use a gate.
func (g *Gate) Decide(in Input) Decision {
	if len(in.Pending) == 0 && !in.Unfinished && !in.Died {
		g.pending = time.Time{}
	} else if g.pending.IsZero() {
		g.pending = in.Now
	}
	all, single := g.blockers(in)
	d := Decision{Blockers: g.date(append(slices.Clone(all), single...), in.Now)}
	d.Ready, d.Forced, d.Tired = ready(in.Pending, single), g.forced(in.Now), g.tired(in.Now)
	empty := toDrain(in)
	work := len(d.Ready) > 0 || len(empty) > 0 || in.Unfinished || in.Died
	switch {
	case in.Running:
		g.quiet = time.Time{}
		d.Phase = Applying
	case in.Hold != "":
		g.quiet = time.Time{}
		d.Phase = Held
	case in.Fault != "":
		g.quiet = time.Time{}
		d.Phase, d.Check = Collecting, time.Second
	case in.Unfinished && !in.Answers:
		d.Phase, d.Open = Collecting, true // a rollback cannot make it worse
	case !work:
		g.quiet = time.Time{}
		d.Phase = Idle
		if len(in.Pending) > 0 {
			d.Phase, d.Check = Collecting, time.Second
		}
	default:
		d.Phase = Collecting
		g.collect(in, len(all) == 0, empty, &d)
	}
	if d.Phase != g.phase {
		g.phase, g.changed = d.Phase, in.Now
	}
	d.Since = g.changed
	return d
}

// collect opens the gate once nothing has objected for the quiet period. Installers that come or go begin it anew.
func (g *Gate) collect(in Input, clear bool, empty []string, d *Decision) {
	if !clear {
		g.quiet = time.Time{}
		d.Check = time.Second
		return
	}
	if g.quiet.IsZero() {
		g.quiet = in.Now
	}
	left := g.policy.Quiet - in.Now.Sub(g.quiet)
	switch {
	case left <= 0 && in.Emptying:
		d.Check = time.Second
		return
	case left <= 0 && len(empty) > 0: // the quiet period goes on: what waits for the drain has waited
		d.Drain = empty
		return
	case left <= 0:
		d.Open, g.quiet = true, time.Time{}
		return
	case left <= g.policy.Lead && !in.Emptying && len(empty) == 0:
		d.Open, d.Due, g.quiet = true, g.quiet.Add(g.policy.Quiet), time.Time{}
		return
	}
	if left > g.policy.Lead {
		left -= g.policy.Lead
	}
	d.Check = min(left, time.Second)
	d.Blockers = append(d.Blockers, Blocker{Reason: QuietPeriod, Since: g.quiet})
}

// blockers lists what keeps everything back, and what keeps back one entry.
func (g *Gate) blockers(in Input) (all, single []Blocker) {
	if in.Hold != "" {
		all = append(all, Blocker{Reason: HeldBy, Who: []string{in.Hold}})
	}
	if in.Fault != "" {
		all = append(all, Blocker{Reason: LastTryFailed, Who: []string{in.Fault}})
	}
	if in.Synced != "" {
		all = append(all, Blocker{Reason: NotSynchronized, Who: []string{in.Synced}})
	}
	if in.Draining {
		all = append(all, Blocker{Reason: Draining})
	}
	if b, ok := g.installers(in); ok {
		all = append(all, b)
	}
	if b, ok := g.stopping(in); ok {
		all = append(all, b)
	}
	last := stage.Last(in.Pending)
	for _, e := range in.Pending {
		single = append(single, inUse(e, last, in)...)
	}
	return all, single
}

// installers objects as long as one is in flight. Pods that only might be one object for a bounded time together, so
// that no tenant holds the gate by starting Jobs.
func (g *Gate) installers(in Input) (Blocker, bool) {
	b := Blocker{Reason: InstallersInFlight}
	decided := false
	for _, i := range in.Installers {
		b.Who = append(b.Who, fmt.Sprintf("%s (%s)", i.Pod, i.Why))
		b.Stuck = b.Stuck || i.Stuck
		decided = decided || !i.Undecided
	}
	switch {
	case decided || g.pending.IsZero():
		g.undecided = time.Time{}
	case len(b.Who) > 0 && g.undecided.IsZero():
		g.undecided = in.Now
	}
	switch {
	case len(b.Who) == 0:
		return b, false
	case g.forced(in.Now), !decided && g.tired(in.Now):
		return b, false
	}
	return b, true
}

// stopping objects while pods are being stopped, for a bounded time: a grace may be hours.
func (g *Gate) stopping(in Input) (b Blocker, ok bool) {
	b.Reason, b.Who = StopInFlight, slices.Clone(in.Stops)
	for _, p := range in.Stopping {
		b.Who = append(b.Who, p.String())
	}
	switch {
	case len(b.Who) == 0 || g.pending.IsZero():
		g.stops = time.Time{}
	case g.stops.IsZero():
		g.stops = in.Now
	}
	return b, len(b.Who) > 0 && (g.stops.IsZero() || in.Now.Sub(g.stops) <= g.policy.Undecided)
}

func (g *Gate) forced(now time.Time) bool {
	return g.policy.MaxDefer > 0 && !g.pending.IsZero() && now.Sub(g.pending) > g.policy.MaxDefer
}

func (g *Gate) tired(now time.Time) bool {
	return !g.undecided.IsZero() && now.Sub(g.undecided) > g.policy.Undecided
}

// date gives each blocker the time since when it objects.
func (g *Gate) date(bs []Blocker, now time.Time) []Blocker {
	next := map[string]time.Time{}
	for i := range bs {
		key := bs[i].Reason + "/" + bs[i].Entry
		at, ok := g.since[key]
		if !ok {
			at = now
		}
		next[key], bs[i].Since = at, at
	}
	g.since = next
	return bs
}

// ready lists the entries that nothing keeps back.
func ready(pending []stage.Entry, single []Blocker) []string {
	var ids []string
	for _, e := range pending {
		if !slices.ContainsFunc(single, func(b Blocker) bool { return b.Entry == e.ID }) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
