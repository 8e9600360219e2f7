package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/urfave/cli/v3"

	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/failpoint"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/stage"
)

// ticketAge is how long a ticket is good for.
const ticketAge = time.Minute

const (
	lastLook   = 10 * time.Second // for creations to end, before a restart is put off
	fenceLimit = 35 * time.Second // for the daemon's fence: after the restart before, its plugin may not be registered yet
)

func applyCommand() *cli.Command {
	return &cli.Command{
		Name:  "apply",
		Usage: "apply staged changes; the gate does it by itself when nobody is in the way",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "now", Usage: "apply at once, whoever is in flight; asks first"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.BoolFlag{Name: "unit", Usage: "run as " + applyUnit + ", with the gate's ticket", Hidden: true},
			&cli.BoolFlag{Name: "boot", Usage: "run before the runtime starts", Hidden: true},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := readConfig(c.String("config"))
			if err != nil {
				return err
			}
			if ctx, err = logging(ctx, cfg); err != nil {
				return err
			}
			switch {
			case c.Bool("unit"):
				return applyInUnit(ctx, cfg)
			case c.Bool("boot"):
				return applyAtBoot(ctx, cfg)
			case c.Bool("now"):
				return applyNow(ctx, c, cfg)
			default:
				return refuse("apply: the gate applies when nobody is in the way (see quiesce status); --now overrides it")
			}
		},
	}
}

func applyInUnit(ctx context.Context, cfg Config) error {
	err := applyTicket(ctx, cfg)
	if err != nil {
		err = errors.Join(err, tellFault(cfg, err))
	}
	return err
}

func applyTicket(ctx context.Context, cfg Config) error {
	t, err := takeTicket(cfg)
	if err != nil {
		return err
	}
	return withApply(ctx, cfg, func(a *apply.Apply) error {
		extending, done := context.WithCancel(ctx)
		defer done()
		go extend(extending, time.Now().Add(longest(cfg, a.Store)))
		err := a.Run(ctx, t)
		if errors.Is(err, apply.ErrDeferred) {
			log.G(ctx).WithError(err).Info("nothing was applied")
			return nil // the gate opens again
		}
		return err
	})
}

// longest is how long apply may take: one restart for all entries, one to roll back, and one for each entry alone.
// systemd's own limit is for an apply that says nothing.
func longest(cfg Config, store *stage.Store) time.Duration {
	pending, err := store.Pending()
	if err != nil {
		return 0
	}
	each := cfg.VerifyTimeout.Duration + 2*cfg.FreezeLimit.Duration + fenceLimit + lastLook + 30*time.Second
	return time.Duration(len(pending)+2) * each
}

func applyAtBoot(ctx context.Context, cfg Config) error {
	return withApply(ctx, cfg, func(a *apply.Apply) error {
		err := a.Boot(ctx)
		if errors.Is(err, apply.ErrRunning) {
			log.G(ctx).WithError(err).Info("nothing was applied")
			return nil
		}
		return err
	})
}

// withApply wires a transaction.
func withApply(ctx context.Context, cfg Config, do func(*apply.Apply) error) error {
	unit, err := runtimeUnit(cfg)
	if err != nil {
		return err
	}
	store, err := stage.Open(cfg.StageDir)
	if err != nil {
		return err
	}
	defer store.Close()
	store.Steps(failpoint.At)
	client, err := newRuntime(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	daemon := control.NewClient(cfg.controlSocket())
	a, err := transaction(ctx, cfg, store)
	if err != nil {
		return err
	}
	a.Unit, a.CRI, a.Rules, a.Step = unit, client, cfg.rules(), failpoint.At
	a.Verify, a.Look = cfg.VerifyTimeout.Duration, lastLook
	a.Fence = func(ctx context.Context, up bool) error {
		limit := 2 * time.Second
		if up {
			limit = fenceLimit
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return daemon.Fence(ctx, up)
	}
	a.Draining = func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		s, err := daemon.Status(ctx)
		return err == nil && slices.ContainsFunc(s.Gate.Blockers, func(b gate.Blocker) bool { return b.Reason == gate.Draining })
	}
	if cfg.FreezeLimit.Duration > 0 {
		a.Freezer = newFreezer(cfg, client)
	}
	err = do(a)
	if lerr := store.WriteLabels("/", cfg.NodeLabels); lerr != nil {
		log.G(ctx).WithError(lerr).Warn("the node's labels were not written")
	}
	return err
}

func writeTicket(cfg Config, t apply.Ticket) error {
	tree, err := stage.OpenTree(cfg.RunDir)
	if err != nil {
		return fmt.Errorf("write ticket: %w", err)
	}
	defer tree.Close()
	b, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("write ticket: %w", err)
	}
	return tree.WriteBytes(filepath.Base(cfg.ticketFile()), b, stage.Attr{Mode: 0o600})
}

// takeTicket uses the gate's ticket up.
func takeTicket(cfg Config) (apply.Ticket, error) {
	var t apply.Ticket
	tree, err := stage.OpenTree(cfg.RunDir)
	if err != nil {
		return t, fmt.Errorf("take ticket: %w", err)
	}
	defer tree.Close()
	name := filepath.Base(cfg.ticketFile())
	b, err := tree.Read(name, stage.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return t, refuse("apply: there is no ticket of the gate; `quiesce apply --now` is for operators")
	}
	if err != nil {
		return t, fmt.Errorf("take ticket: %w", err)
	}
	if err := tree.Remove(name); err != nil {
		return t, err
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return t, fmt.Errorf("take ticket: %w", err)
	}
	if age := time.Since(t.Issued); age > ticketAge || age < -ticketAge {
		return t, refuse("apply: the gate's ticket is %v old", age.Round(time.Second))
	}
	return t, nil
}

// applyNow is the operator's override.
func applyNow(ctx context.Context, c *cli.Command, cfg Config) error {
	store, err := stage.Open(cfg.StageDir)
	if err != nil {
		return err
	}
	defer store.Close()
	pending, err := store.Pending()
	if err != nil {
		return err
	}
	journal, err := store.Journal()
	if err != nil {
		return err
	}
	if len(pending) == 0 && journal == nil {
		drift, err := drift(ctx, cfg, store, nil)
		if err != nil || len(drift) == 0 { // apply itself would say what is wrong
			fmt.Fprintln(c.Root().Writer, "nothing is staged")
			return nil
		}
		fmt.Fprintf(c.Root().Writer, "Somebody has overwritten %s: this repairs it.\n", strings.Join(drift, ", "))
	}
	if !c.Bool("yes") {
		if err := confirm(ctx, c, cfg, pending); err != nil {
			return err
		}
	}
	t := apply.Ticket{Now: true, Issued: time.Now().UTC()}
	if err := starter(cfg)(ctx, t); err != nil {
		return fmt.Errorf("%w; see journalctl -u %s", err, applyUnit)
	}
	return reportNow(c, cfg, pending)
}

// confirm shows what is in the way and asks.
func confirm(ctx context.Context, c *cli.Command, cfg Config, pending []stage.Entry) error {
	w := c.Root().Writer
	fmt.Fprintf(w, "This applies %d staged changes and restarts %s now.\n", len(pending), cfg.Unit)
	if st, err := control.NewClient(cfg.controlSocket()).Status(ctx); err == nil {
		for _, b := range st.Gate.Blockers {
			fmt.Fprintf(w, "  in the way: %s\n", b)
		}
	} else {
		fmt.Fprintf(w, "  what is in the way is not known: %v\n", err)
	}
	fmt.Fprint(w, "Containers that end meanwhile lose their exit code. Go on? [y/N] ")
	answer, _ := bufio.NewReader(c.Root().Reader).ReadString('\n') // no answer is no
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return refuse("apply: not confirmed; nothing was changed (--yes confirms without asking)")
	}
	return nil
}

// reportNow tells what became of the entries.
func reportNow(c *cli.Command, cfg Config, pending []stage.Entry) error {
	rs, err := stage.Results(filepath.Join(cfg.StageDir, "results"))
	if err != nil {
		return err
	}
	var bad error
	for _, e := range pending {
		i := slices.IndexFunc(rs, func(r stage.Result) bool { return r.ID == e.ID })
		if i < 0 {
			continue
		}
		fmt.Fprintf(c.Root().Writer, "%s: %s %s\n", e.ID, rs[i].Phase, rs[i].Reason)
		if rs[i].Phase == stage.Rejected {
			bad = errors.New("apply: changes were rejected")
		}
	}
	return bad
}
