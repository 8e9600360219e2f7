package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/log"
	"github.com/urfave/cli/v3"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/failpoint"
	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/internal/systemd"
)

// thawCommand is the way out of every window: ExecStopPost of quiesce-apply.service, and an operator's last resort.
func thawCommand() *cli.Command {
	return &cli.Command{
		Name:   "thaw",
		Usage:  "thaw the containers that an apply has frozen",
		Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "the `DIRECTORY` of the list, if not the stage's store"},
			&cli.StringFlag{Name: "window", Usage: "only if `NAME` is what has frozen them"},
			&cli.BoolFlag{Name: "guard", Usage: "wait for the limit, or the owner's end, first"},
			&cli.IntFlag{Name: "owner", Usage: "`PID` of the apply that thaws by itself"},
			&cli.StringFlag{Name: "owner-start", Usage: "start `TIME` of that process, in clock ticks since boot"},
			&cli.DurationFlag{Name: "limit", Usage: "how long the owner may take"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := readConfig(c.String("config"))
			if err != nil {
				var ferr error // better thaw in the usual place than not at all
				cfg, ferr = fallback()
				err = errors.Join(err, ferr)
			}
			ctx, lerr := logging(ctx, cfg)
			if err = errors.Join(err, lerr); err != nil {
				log.G(ctx).WithError(err).Warn("thawing with the default settings")
			}
			dir := c.String("dir")
			if dir == "" {
				dir = freezeDir(cfg)
			}
			if !c.Bool("guard") {
				return freeze.ThawAll(ctx, dir, c.String("window"))
			}
			return freeze.Guard(ctx, freeze.Guarded{
				Dir: dir, Window: c.String("window"), Limit: c.Duration("limit"),
				Owner: freeze.Process{PID: c.Int("owner"), Start: c.String("owner-start")},
			}, func() { systemd.Ready(ctx) })
		},
	}
}

func freezeDir(cfg Config) string { return filepath.Join(cfg.StageDir, "store") }

// inhibitFor is how long logind may take to answer; without it the node can be shut down meanwhile.
const inhibitFor = time.Second

// newFreezer wires what keeps exit codes over a restart.
func newFreezer(cfg Config, runtime *cri.Client) *freeze.Freezer {
	rules := freeze.DefaultRules()
	rules.Services = cfg.FreezeServices
	return &freeze.Freezer{
		Dir: freezeDir(cfg), Runtime: runtime, Rules: rules, Limit: cfg.FreezeLimit.Duration,
		Step: func(name string) { failpoint.At("freeze: " + name) },
		Guard: func(ctx context.Context, window string, owner freeze.Process, limit time.Duration) (func(context.Context) error, error) {
			exe, err := os.Executable()
			if err != nil {
				return nil, fmt.Errorf("find own program: %w", err)
			}
			clean := []string{exe, "thaw", "--dir", freezeDir(cfg), "--window", window}
			argv := append(slices.Clone(clean), "--guard", "--owner", strconv.Itoa(owner.PID), "--owner-start", owner.Start, "--limit", limit.String())
			return systemd.StartGuard(ctx, "quiesce-thaw-"+window+".service", argv, clean, 3*limit)
		},
		Inhibit: func(ctx context.Context) (func() error, error) {
			ctx, cancel := context.WithTimeout(ctx, inhibitFor)
			defer cancel()
			return systemd.InhibitShutdown(ctx, "containerd is being restarted, containers are frozen")
		},
	}
}
