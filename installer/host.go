package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

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
			&cli.StringFlag{Name: "binary", Usage: "the program quiesce (default: the `FILE` beside this program)"},
			&cli.StringFlag{Name: "unit", Usage: "the `UNIT` that runs containerd (default: what the settings say, else the one that is there)"},
			&cli.BoolFlag{Name: "remove", Usage: "take quiesce off; refuses while handlers are live or entries wait"},
		},
		Action: hostAction,
	}
}

func hostAction(ctx context.Context, c *cli.Command) error {
	if err := noArgs(c); err != nil {
		return err
	}
	var units host.Units
	if !c.IsSet("root") {
		m, err := systemd.Connect(ctx)
		if err != nil {
			return refusal.New("host: systemd does not answer here (%v); for the image of a node use --root DIR", err)
		}
		defer m.Close()
		units = m
	}
	node, err := host.Open(cmp.Or(c.String("root"), "/"), units, func(s string) { fmt.Fprintln(c.Root().Writer, s) })
	if err != nil {
		return err
	}
	defer node.Close()
	if units != nil {
		node.Ask(profile.Behind)
	}
	if c.Bool("remove") {
		return node.Remove(ctx)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), "quiesce")
	return node.Install(ctx, host.Options{Binary: cmp.Or(c.String("binary"), beside), Self: self, Unit: c.String("unit")})
}
