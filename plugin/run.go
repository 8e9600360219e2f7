package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/containerd/log"
	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/daemon"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

const applyUnit = "quiesce-apply.service"

func runCommand() *cli.Command {
	return &cli.Command{
		Name:        "run",
		Usage:       "the daemon: watch pods, and apply staged changes when no installer is in flight",
		Description: "Settings are read from " + defaultConfig + ", where each is described.",
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := readConfig(c.String("config"))
			if err != nil {
				return err
			}
			if ctx, err = logging(ctx, cfg); err != nil {
				return err
			}
			return run(ctx, cfg)
		},
	}
}

func run(ctx context.Context, cfg Config) error {
	unlock, err := onlyOne(cfg.RunDir)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // the kernel gives it back when the process ends
	store, err := stage.Open(cfg.StageDir)
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := cri.New(cfg.CRISocket)
	if err != nil {
		return err
	}
	defer client.Close()
	listener, err := control.Listen(cfg.controlSocket())
	if err != nil {
		return err
	}
	drainStore, err := drain.OpenStore(cfg.StageDir)
	if err != nil {
		return err
	}
	defer drainStore.Close()
	state, fence, drains := node.NewState(), &daemon.Fence{}, daemon.NewDrains(drainStore, cfg.Drain.policy())
	session := nri.NewSession(cfg.NRISocket, state, daemon.Guards{Apply: fence, Drain: drains})
	d := &daemon.Daemon{
		Version: version, Unit: cfg.Unit, Store: store, State: state, CRI: client, NRI: session.Status, Fences: fence, Drains: drains,
		Rules: cfg.rules(), Policy: cfg.policy(), Start: starter(cfg),
	}
	log.G(ctx).WithField("version", version).WithField("config", fmt.Sprintf("%+v", cfg)).Info("quiesce runs")
	if err := freeze.Recover(ctx, freezeDir(cfg)); err != nil { // of an apply that died, and at boot
		log.G(ctx).WithError(err).Error("containers may still be frozen; `quiesce thaw` tries again")
	}
	defer systemd.Stopping(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return control.Serve(ctx, listener, d) })
	g.Go(func() error { return session.Run(ctx) })
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return keepDrained(ctx, cfg, drains) })
	g.Go(func() error {
		return systemd.Watchdog(ctx, func(ctx context.Context) error {
			_, err := control.NewClient(cfg.controlSocket()).Status(ctx)
			return err
		})
	})
	systemd.Ready(ctx)
	return g.Wait()
}

// onlyOne takes the daemon's lock, or says who has it.
func onlyOne(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:forbidigo // /run is nobody's file
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:forbidigo // as above
	if err != nil {
		return nil, fmt.Errorf("lock daemon: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(refuse("another quiesce daemon runs: it holds %s", f.Name()), f.Close())
	}
	return f.Close, nil
}

// starter hands a ticket to apply's unit and waits until that has ended.
func starter(cfg Config) func(context.Context, apply.Ticket) error {
	return func(ctx context.Context, t apply.Ticket) error {
		if err := errors.Join(tellFault(cfg, nil), writeTicket(cfg, t)); err != nil {
			return err
		}
		if err := (systemd.Unit{Name: applyUnit}).Start(ctx); err != nil {
			return toldFault(cfg, err)
		}
		return nil
	}
}
