package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/containerd/log"
	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/internal/systemd"
)

const applyUnit = "quiesce-apply.service"

// gcPercent trades time, of which the daemon needs little, for memory, which every node of a cluster pays.
const gcPercent = 30

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
	c, err := openCore(ctx, cfg, lockHost)
	if err != nil {
		return err
	}
	defer c.close()
	debug.SetGCPercent(gcPercent)
	state := node.NewState()
	session := nri.NewSession(cfg.NRISocket, state, c.guards())
	session.Calm = c.calm
	log.G(ctx).WithField("version", version).WithField("config", fmt.Sprintf("%+v", cfg)).Info("quiesce runs")
	defer systemd.Stopping(ctx)
	g, ctx := errgroup.WithContext(ctx)
	c.serve(ctx, g, state, session, starter(cfg))
	g.Go(func() error { return session.Run(ctx) })
	g.Go(func() error {
		return systemd.Watchdog(ctx, control.NewClient(cfg.controlSocket()).Alive)
	})
	systemd.Ready(ctx)
	return g.Wait()
}

// calm tells whether the kubelet stops no pod right now; a runtime that does not answer stops none.
func (c *core) calm(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pods, err := c.client.List(ctx)
	return err != nil || !slices.ContainsFunc(pods, (*node.Pod).Stopping)
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
