package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"quiesce/plugin/stage"
)

// Story is a change of two handlers at once, beside one that is live.
type Story string

// The stories. Uninstall begins where the others end, and ends where they begin.
const (
	Install   Story = "install"
	Uninstall Story = "uninstall"
	AtBoot    Story = "boot" // of the same handlers as Install, before containerd starts
)

// Action is what happens at a step.
type Action string

// The actions. The processes are killed by SIGKILL.
const (
	KillApply      Action = "apply"
	KillDaemon     Action = "daemon"
	KillContainerd Action = "containerd"
	KillShim       Action = "shim"
	CutPower       Action = "power"
)

// Actions of the whole matrix; the shims come in by the draw.
var Actions = []Action{KillApply, KillDaemon, KillContainerd, CutPower}

// Case is one interruption.
type Case struct {
	Story   Story
	Step    int    // which step of apply, from 1
	Name    string // of those with this name; empty: of all
	Action  Action
	Written []string      // with CutPower: the disks that were written by chance
	Later   time.Duration // after the step
}

func (c Case) String() string {
	s := fmt.Sprintf("%s step %s %s", c.Story, strings.TrimSpace(fmt.Sprint(c.Step, " ", c.Name)), c.Action)
	if c.Action == CutPower {
		s += fmt.Sprintf(" (written: %s)", strings.Join(c.Written, " "))
	}
	if c.Later > 0 {
		s += fmt.Sprintf(" %v later", c.Later)
	}
	return s
}

// Key names the case, but for what chance adds to it.
func (c Case) Key() string {
	return strings.TrimSpace(fmt.Sprintf("%s %d %s %s %v", c.Story, c.Step, c.Name, c.Action, c.Later))
}

// Outcome is what became of a case.
type Outcome struct {
	Case    Case
	At      string   // the step's name
	Ended   string   // "new": everything was applied; "old": everything was rejected; else what was
	Wrong   []string // violations
	Reasons []string // of what was rejected
	Took    time.Duration
	was     map[string]stage.Result // the results at the step
}

// stories' handlers: one brings a shim, the other uses the node's.
var changes = map[Story][][]string{
	Install: {
		{"install", "--handler", "one", "--shim", oneShim},
		{"install", "--handler", "two", "--runtime-type", "io.containerd.runc.v2"},
	},
	AtBoot: {
		{"install", "--handler", "one", "--shim", oneShim},
		{"install", "--handler", "two", "--runtime-type", "io.containerd.runc.v2"},
	},
	Uninstall: {{"uninstall", "--handler", "one"}, {"uninstall", "--handler", "two"}},
}

// Steps lists the steps that apply takes in a story when nothing happens.
func (b *Bench) Steps(ctx context.Context, s Story) ([]string, error) {
	if _, err := b.stage(ctx, s); err != nil {
		return nil, err
	}
	if err := b.put("trace", ""); err != nil {
		return nil, err
	}
	begin := b.letGo
	if s == AtBoot {
		begin = b.Start
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	if err := b.Settle(ctx); err != nil {
		return nil, err
	}
	steps := strings.Split(strings.TrimSpace(b.got("trace")), "\n")
	if end := slices.Index(steps, "locked"); s == AtBoot && end >= 0 {
		steps = steps[:end] // from there on it is the daemon's apply
	}
	_, err := b.Exec(ctx, "rm", chaosDir+"/trace")
	return steps, err
}

// stage brings the node to where the story begins and stages its changes, which are held.
func (b *Bench) stage(ctx context.Context, s Story) ([]stage.Entry, error) {
	before := Uninstall
	if s == Uninstall {
		before = Install
	}
	if err := b.ensure(ctx, before); err != nil {
		return nil, err
	}
	if err := b.ensureWorker(ctx); err != nil {
		return nil, err
	}
	if _, err := b.Exec(ctx, "rm", "-f", chaosDir+"/plan", chaosDir+"/planned", chaosDir+"/reached", chaosDir+"/release"); err != nil {
		return nil, err
	}
	begin, change := b.hold, b.change
	if s == AtBoot {
		begin, change = b.off, b.offline
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	for _, args := range changes[s] {
		if err := change(ctx, args...); err != nil {
			return nil, err
		}
	}
	st, err := b.store()
	if err != nil {
		return nil, err
	}
	defer st.Close()
	staged, err := st.Pending()
	if err == nil && len(staged) != 2 {
		err = fmt.Errorf("stage %s: %d entries, want 2", s, len(staged))
	}
	return staged, err
}

// ensure applies what a story would, if it is not so already.
func (b *Bench) ensure(ctx context.Context, s Story) error {
	live, err := b.live()
	if err != nil {
		return err
	}
	want := base
	if s == Install {
		want = base + " one two"
	}
	if strings.Join(live, " ") == want {
		return nil
	}
	for _, args := range changes[s] {
		if err := b.change(ctx, args...); err != nil {
			return err
		}
	}
	return b.Settle(ctx)
}

func (b *Bench) hold(ctx context.Context) error {
	_, err := b.Quiesce(ctx, "hold", "a test")
	return err
}

func (b *Bench) letGo(ctx context.Context) error {
	_, err := b.Quiesce(ctx, "release")
	return err
}

// Try interrupts a change and looks at the node when it has recovered. An error is a fault of the bench.
func (b *Bench) Try(ctx context.Context, c Case) (Outcome, error) {
	o, began := Outcome{Case: c}, time.Now()
	entries, err := b.stage(ctx, c.Story)
	if err != nil {
		return o, err
	}
	plan := "hold"
	if c.Action == KillApply && c.Later == 0 {
		plan = "kill"
	}
	if c.Story == AtBoot {
		plan = bootPlan(c.Action)
	}
	if err := b.put("plan", strings.TrimSpace(fmt.Sprintf("%d %s %s", c.Step, plan, c.Name))); err != nil {
		return o, err
	}
	if c.Story == AtBoot {
		err = b.boot(ctx, c, &o)
	} else {
		err = b.run(ctx, c, &o, plan == "hold")
	}
	if errors.Is(err, errNotReached) { // how many files are written differs from run to run
		err = nil
	}
	if err != nil {
		return o, fmt.Errorf("%v at %q: %w", c, o.At, err)
	}
	if err := b.Settle(ctx); err != nil {
		o.Wrong = append(o.Wrong, err.Error())
	}
	b.judge(ctx, &o, entries)
	o.Took = time.Since(began)
	return o, nil
}

// run lets a held story go on to its step, and there what is to happen happen.
func (b *Bench) run(ctx context.Context, c Case, o *Outcome, held bool) (err error) {
	if err := b.letGo(ctx); err != nil {
		return err
	}
	if o.At, err = b.reached(ctx); err != nil {
		return err
	}
	if o.was, err = b.results(); err != nil {
		return err
	}
	return b.act(ctx, c, held)
}

var errNotReached = errors.New("apply did not come there")

func (b *Bench) reached(ctx context.Context) (at string, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, time.Minute, errNotReached)
	defer cancel()
	err = b.Until(limited, "apply is at the step", func(context.Context) (bool, error) {
		at = b.got("reached")
		return at != "", nil
	})
	return at, err
}

// act does what is to happen, while apply is held at the step or some time after.
func (b *Bench) act(ctx context.Context, c Case, held bool) error {
	release := func() error {
		if !held {
			return nil
		}
		return b.put("release", "")
	}
	if c.Later > 0 {
		if err := release(); err != nil {
			return err
		}
		held = false
		select {
		case <-time.After(c.Later):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var err error
	switch c.Action {
	case KillApply:
		if c.Later > 0 {
			_, _ = b.Exec(ctx, "systemctl", "kill", "--signal=KILL", "quiesce-apply.service") // it may have ended
		}
	case KillDaemon:
		_, err = b.Exec(ctx, "systemctl", "kill", "--signal=KILL", "quiesce.service")
	case KillContainerd:
		_, err = b.Exec(ctx, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "containerd.service")
		if c.Later > 0 {
			err = nil // it may just be down
		}
	case KillShim:
		_, err = b.Exec(ctx, "pkill", "-KILL", "-f", "containerd-shim-runc-v2 .*"+b.worker.SandboxID)
		b.worker = nil
	case CutPower:
		return b.cut(ctx, c.Written)
	}
	return errors.Join(err, release())
}

func (b *Bench) cut(ctx context.Context, written []string) error {
	b.worker = nil
	if err := b.PowerCut(ctx, written...); err != nil {
		return err
	}
	return b.Start(ctx)
}
