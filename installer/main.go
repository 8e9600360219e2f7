// Command quiesce-installer stages changes of containerd's runtime shims from a pod that may write to one directory
// only, and puts quiesce on a node.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/urfave/cli/v3"

	"quiesce/installer/internal/refusal"
)

var version string // set by the linker

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitRefused
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	err := command(out, errs).Run(ctx, args)
	var refused *refusal.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &refused):
		fmt.Fprintln(errs, "quiesce-installer: refused:", err)
		return exitRefused
	default:
		fmt.Fprintln(errs, "quiesce-installer:", err)
		return exitFailed
	}
}

func command(out, errs io.Writer) *cli.Command {
	root := &cli.Command{
		Name:    "quiesce-installer",
		Usage:   "stage changes of containerd's runtime shims; quiesce applies them when no installer is in flight",
		Version: build(),
		Writer:  out, ErrWriter: errs,
		Commands: []*cli.Command{installVerb(), uninstallVerb(), statusVerb(), hostVerb(), versionVerb()},
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return refusal.New("there is no verb %q; see quiesce-installer --help", c.Args().First())
			}
			return errors.Join(cli.ShowAppHelp(c), refusal.New("name a verb"))
		},
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // run decides
	}
	for _, c := range append(root.Commands, root) {
		c.OnUsageError = usageError
		c.DisableSliceFlagSeparator = true // values may hold commas
	}
	return root
}

func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	return refusal.New("%v; see %s --help", err, c.FullName())
}

// noArgs refuses arguments for a verb that takes none.
func noArgs(c *cli.Command) error {
	if c.Args().Present() {
		return refusal.New("%s: unexpected argument %q", c.Name, c.Args().First())
	}
	return nil
}

func versionVerb() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		Action: func(_ context.Context, c *cli.Command) error {
			_, err := fmt.Fprintln(c.Root().Writer, "quiesce-installer", build())
			return err
		},
	}
}

func build() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		return cmp.Or(info.Main.Version, "(devel)")
	}
	return cmp.Or(version, "(devel)")
}
