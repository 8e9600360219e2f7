package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/urfave/cli/v3"
	"golang.org/x/sys/unix"

	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/hook"
	"quiesce/plugin/internal/mounts"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/process"
	"quiesce/plugin/internal/systemd"
)

// drainer is what one drain needs.
type drainer struct {
	cfg    Config
	policy drain.Policy
	store  *drain.Store
	daemon *control.Client
	rt     *process.Failover
}

// withDrainer wires a drain. Nothing of it needs the daemon, and nothing registers with NRI: that would freeze CRI
// behind a long stop (containerd#14083).
func withDrainer(cfg Config, do func(*drainer) error) error {
	store, err := drain.OpenStore(cfg.StageDir)
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := newRuntime(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(&drainer{
		cfg: cfg, policy: cfg.Drain.policy(), store: store, daemon: control.NewClient(cfg.controlSocket()),
		rt: &process.Failover{Runtime: client, Dead: runtimeDead(cfg)},
	})
}

// runtimeDead tells whether a silent runtime is not coming back. systemd does not restart a unit that is being stopped;
// one that it restarts is activating meanwhile.
func runtimeDead(cfg Config) func(context.Context, time.Duration) bool {
	return func(ctx context.Context, silent time.Duration) bool {
		active, err := systemd.Unit{Name: cfg.Unit}.Active(ctx)
		if err != nil || active == "active" || active == "activating" || active == "reloading" {
			return silent > 30*time.Second
		}
		if m, err := systemd.Look(ctx); err == nil {
			if job := m.Jobs[cfg.Unit]; job == "start" || job == "restart" {
				return silent > 30*time.Second
			}
		}
		return silent > time.Second
	}
}

func drainCommand() *cli.Command {
	return &cli.Command{
		Name:  "drain",
		Usage: "stop pods in order, each with its own grace, and keep them stopped until resume",
		Description: "Works without the daemon, but then nothing keeps a kubelet from starting the pods again.\n" +
			"quiesce-drain.service does it by itself when the node's services stop.",
		Flags: append(selectionFlags(),
			&cli.DurationFlag{Name: "deadline", Usage: "end after this `TIME` whatever pods do; default drain.deadline of the configuration"},
			&cli.BoolFlag{Name: "keep-sandboxes", Usage: "leave the pods' sandboxes as they are: their containers are to come back"},
			&cli.BoolFlag{Name: "dry-run", Usage: "show the plan only"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.StringFlag{Name: "from-systemd", Usage: "run as quiesce-drain.service: start, stop or stop-post", Hidden: true},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := readConfig(c.String("config"))
			if err != nil {
				return err
			}
			if ctx, err = logging(ctx, cfg); err != nil {
				return err
			}
			switch verb := c.String("from-systemd"); verb {
			case "":
				return drainNow(ctx, c, cfg)
			case "start":
				return drainUnitStart(ctx, cfg)
			case "stop":
				return drainUnitStop(ctx, cfg)
			case "stop-post":
				return drainUnitStopPost(ctx, cfg)
			default:
				return refuse("drain: --from-systemd %q must be start, stop or stop-post", verb)
			}
		},
	}
}

// drainNow is the operator's.
func drainNow(ctx context.Context, c *cli.Command, cfg Config) error {
	sel, err := selection(c, false)
	if err != nil {
		return err
	}
	deadline := cfg.Drain.Deadline.Duration
	if c.IsSet("deadline") {
		if deadline = c.Duration("deadline"); deadline < drain.Floor {
			return refuse("drain: --deadline %v must be at least %v", deadline, drain.Floor)
		}
	}
	return withDrainer(cfg, func(d *drainer) error {
		d.policy.KeepSandboxes = c.Bool("keep-sandboxes")
		snap, err := d.rt.Snapshot(ctx)
		if err != nil {
			return err
		}
		plan, problems := drain.New(snap, d.policy, sel)
		w := c.Root().Writer
		if c.Bool("dry-run") || sel.All && !c.Bool("yes") {
			if err := plan.Print(w); err != nil {
				return err
			}
		}
		if problems != nil && !c.Bool("yes") {
			return refuse("drain: %w", problems)
		}
		if c.Bool("dry-run") {
			return nil
		}
		if sel.All && !c.Bool("yes") {
			if err := confirmDrain(c, plan); err != nil {
				return err
			}
		}
		st, err := d.run(ctx, request{sel: sel, trigger: "drain by an operator", deadline: deadline, patience: brief}, progress(w))
		if errors.Is(err, drain.ErrLocked) {
			return refuse("drain: %w; see quiesce status", err)
		}
		if st != nil {
			summarize(w, st)
		}
		return err
	})
}

func confirmDrain(c *cli.Command, plan drain.Plan) error {
	if !terminal(os.Stdin) {
		return refuse("drain: --all stops every pod of the node; off a terminal it needs --yes")
	}
	fmt.Fprintf(c.Root().Writer, "This stops %d pods, and they stay stopped until `quiesce resume`. Go on? [y/N] ", plan.Pods())
	answer, _ := bufio.NewReader(c.Root().Reader).ReadString('\n') // no answer is no
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return refuse("drain: not confirmed; nothing was stopped")
	}
	return nil
}

func terminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// brief is how long is waited for the daemon's look behind the fence.
const brief = 3 * time.Second

// request is what is to be drained, and why.
type request struct {
	sel      drain.Selection
	trigger  string
	deadline time.Duration
	patience time.Duration              // with a drain that is at work
	kubelet  string                     // a unit to stop first
	binding  bool                       // services stop: no hook puts it off
	still    func(context.Context) bool // asked after a wait for another drain; nil: always
}

// run drains, or goes on with a drain that was cut off. watch is told when the engine is ready.
func (d *drainer) run(ctx context.Context, r request, watch func(context.Context, *drain.Engine) func()) (*drain.State, error) {
	unlock, err := d.lock(ctx, r.patience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unlock() }()
	if r.still != nil && !r.still(ctx) {
		return nil, nil //nolint:nilnil // what it was for is over
	}
	st, err := d.state(ctx, r)
	if err != nil || st.Phase == drain.Drained {
		return st, err
	}
	d.stopKubelet(ctx, r, st)
	e := &drain.Engine{
		Stopper: d.rt, Observer: d.rt, Reacher: d.rt, Ended: process.Ended, Hooks: d.rt.Runtime.(drain.Hooks), Journal: d.store, Policy: d.policy, Fence: d.daemon.Drain,
		NodeHooks: hook.Runner{}, Mounts: &mounts.Host{},
	}
	defer watch(ctx, e)()
	return st, e.Run(ctx, st)
}

// lock takes the drain's state, after waiting for a drain that is at work.
func (d *drainer) lock(ctx context.Context, patience time.Duration) (unlock func() error, err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; {
		unlock, err = d.store.Lock()
		if err == nil || !errors.Is(err, drain.ErrLocked) || time.Now().After(end) {
			return unlock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// state is that of the drain that was cut off, if it is the same, or a new one.
func (d *drainer) state(ctx context.Context, r request) (*drain.State, error) {
	old, err := d.store.Load()
	if err != nil {
		log.G(ctx).WithError(err).Error("the state of an earlier drain is lost")
	}
	boot := drain.Boot()
	same := old.Active(boot) && old.Selection.String() == r.sel.String()
	if old.Active(boot) && !same && !r.sel.All {
		return nil, refuse("drain: a drain of %s is on, and its fence would come down; quiesce resume ends it", old.Selection)
	}
	if same && old.Phase != drain.Drained {
		log.G(ctx).WithField("drain", old.ID).Info("going on with a drain that was cut off")
		d.rt.Prime(old)
		if left := time.Until(old.Deadline); left < time.Minute {
			old.Deadline = time.Now().UTC().Add(min(r.deadline, time.Minute))
		}
		old.Phase = drain.Draining
		return old, nil
	}
	snap, err := d.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("drain: the runtime does not answer and nothing is known of its containers: %w", err)
	}
	plan, problems := drain.New(snap, d.policy, r.sel)
	if problems != nil {
		log.G(ctx).WithError(problems).Error("the order is not what pods or rules ask for")
	}
	if same {
		if !old.Extend(plan, time.Now(), r.deadline) {
			return old, nil
		}
		log.G(ctx).WithField("drain", old.ID).Warn("containers run again that were drained")
		return old, d.store.Save(old)
	}
	st := drain.NewState(plan, r.sel, strings.ToLower(rand.Text()[:8]), boot, r.trigger, time.Now(), r.deadline)
	st.KeepSandboxes, st.Binding = d.policy.KeepSandboxes, r.binding
	if problems != nil {
		st.Notes = append(st.Notes, strings.Split(problems.Error(), "\n")...)
	}
	return st, errors.Join(d.store.Rotate(), d.store.Save(st))
}

// snapshotLimit is how long a runtime may take to list its pods; one that is being restarted is waited for.
const snapshotLimit = 20 * time.Second

func (d *drainer) snapshot(ctx context.Context) (snap node.Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	for {
		if snap, err = d.rt.Snapshot(ctx); err == nil {
			return snap, nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return snap, err
		}
	}
}

// stopKubelet stops a kubelet that would start again what is stopped. It is noted first, and started on resume.
func (d *drainer) stopKubelet(ctx context.Context, r request, st *drain.State) {
	if r.kubelet == "" || st.Kubelet != "" {
		return
	}
	unit := systemd.Unit{Name: r.kubelet}
	if active, err := unit.Active(ctx); err != nil || active != "active" {
		return // there is none: the fence has to do
	}
	st.Kubelet = r.kubelet
	if err := d.store.Save(st); err != nil {
		log.G(ctx).WithError(err).Warn("the drain's state was not written")
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := unit.Halt(ctx); err != nil {
		log.G(ctx).WithError(err).Warn("the kubelet was not stopped")
	}
}
