package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"quiesce/installer/internal/enqueue"
	"quiesce/installer/internal/rcm"
	"quiesce/installer/internal/refusal"
	"quiesce/plugin/stage"
)

func uninstallVerb() *cli.Command {
	return &cli.Command{
		Name: "uninstall", Usage: "stage the removal of handlers", ArgsUsage: "[HANDLER...]",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "handler", Aliases: []string{"runtime", "r"}, Usage: "the `NAME` of a handler", Sources: rcm.Env("RUNTIME", "QUIESCE_HANDLER")},
			drainFlag(), inboxFlag(),
		}, rcm.Flags()...),
		Action: uninstall,
	}
}

func uninstall(ctx context.Context, c *cli.Command) error {
	handlers := append(c.StringSlice("handler"), c.Args().Slice()...)
	if len(handlers) == 0 {
		return refusal.New("uninstall: name a handler")
	}
	for _, h := range handlers {
		if err := stage.ValidHandler(h); err != nil {
			return refusal.New("%v", err)
		}
	}
	dir := rcm.Inbox(c.String("inbox"), c.String("host-root"))
	box, err := stage.OpenInbox(dir)
	if err != nil {
		return enqueue.Missing(dir, err)
	}
	defer box.Close()
	then := "goes when no pod uses it and no installer pod is in flight"
	if c.Bool("drain") {
		then = "goes when no installer pod is in flight, after its pods were stopped in order"
	}
	for _, h := range handlers {
		got, err := enqueue.Remove(ctx, box, h, c.Bool("drain"), owner())
		if err != nil {
			return enqueue.Explain(dir, err)
		}
		if err := report(c.Root().Writer, got, h, then); err != nil {
			return err
		}
	}
	return nil
}
