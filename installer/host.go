package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"quiesce/installer/internal/host"
	"quiesce/installer/internal/refusal"
	"quiesce/installer/internal/systemd"
	"quiesce/manifests/profile"
)

func hostVerb() *cli.Command {
	return &cli.Command{
		Name: "host", Usage: "put this node, or the image of one, in order for quiesce; or take quiesce off it",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "root", Usage: "the root `DIR` of an image, in which nothing runs (default: this node)"},
			&cli.BoolFlag{Name: "running", Usage: "DIR is the root of a running node, as a pod sees it: its systemd is asked"},
			&cli.DurationFlag{Name: "keep", Usage: "stay, and put the node in order again every `D`"},
			&cli.StringFlag{Name: "binary", Usage: "the program quiesce (default: the `FILE` beside this program)"},
			&cli.StringFlag{Name: "unit", Usage: "the `UNIT` that runs containerd (default: what the settings say, else the one that is there)"},
			&cli.StringFlag{Name: "settings", Usage: "the `FILE` that /etc/quiesce/config.toml is to be (default: what is there stays as it is)"},
			&cli.BoolFlag{Name: "remove", Usage: "take quiesce off; refuses while handlers are live or entries wait"},
			&cli.BoolFlag{Name: "keep-handlers", Usage: "with --remove: live handlers stay as they are, and host knows them again"},
		},
		Action: hostAction,
	}
}

func hostAction(ctx context.Context, c *cli.Command) error {
	if err := noArgs(c); err != nil {
		return err
	}
	if c.Bool("keep-handlers") && !c.Bool("remove") {
		return refusal.New("host: --keep-handlers is for --remove")
	}
	if c.Duration("keep") < 0 || c.Bool("remove") && c.IsSet("keep") {
		return refusal.New("host: --keep must be more than 0s, and is not for --remove")
	}
	err := onHost(ctx, c)
	for err == nil && c.Duration("keep") > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Duration("keep")):
			err = onHost(ctx, c)
		}
	}
	return err
}

func onHost(ctx context.Context, c *cli.Command) error {
	root := cmp.Or(c.String("root"), "/")
	var units host.Units
	if !c.IsSet("root") || c.Bool("running") {
		m, err := systemd.Connect(ctx, root)
		if err != nil {
			return refusal.New("host: systemd does not answer here (%v); for the image of a node use --root DIR", err)
		}
		defer m.Close()
		units = m
	}
	node, err := host.Open(root, units, func(s string) { fmt.Fprintln(c.Root().Writer, s) })
	if err != nil {
		return err
	}
	defer node.Close()
	if units != nil {
		node.Ask(func(socket string) (int, error) { return profile.Behind(filepath.Join(root, socket)) })
	}
	if c.Bool("remove") {
		return node.Remove(ctx, c.Bool("keep-handlers"))
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o := host.Options{Binary: cmp.Or(c.String("binary"), filepath.Join(filepath.Dir(self), "quiesce")), Self: self, Unit: c.String("unit")}
	if file := c.String("settings"); file != "" {
		if o.Settings, err = os.ReadFile(file); err != nil {
			return refusal.New("host: read settings: %v", err)
		}
	}
	return node.Install(ctx, o)
}
