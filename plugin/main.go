// Command quiesce lets a Kubernetes node restart containerd and shut down without hurting a pod.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"
)

// version is set by the linker.
var version = "dev"

// Exit codes.
const (
	exitFailed  = 1
	exitRefused = 2
	exitWarned  = 3 // doctor's
)

// refusedError is an error whose cause is the request, not the node.
type refusedError struct{ error }

func refuse(format string, a ...any) error { return refusedError{fmt.Errorf(format, a...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	var err error
	if launched() {
		err = runLaunched(ctx, defaultConfig)
	} else {
		err = app().Run(ctx, os.Args)
	}
	var refused refusedError
	switch {
	case err == nil:
	case errors.Is(err, errWarned):
		os.Exit(exitWarned)
	case errors.As(err, &refused):
		fmt.Fprintln(os.Stderr, "quiesce:", err)
		os.Exit(exitRefused)
	default:
		fmt.Fprintln(os.Stderr, "quiesce:", err)
		os.Exit(exitFailed)
	}
}

func app() *cli.Command {
	root := &cli.Command{
		Name:    "quiesce",
		Usage:   "restart containerd only when it costs nobody anything",
		Version: version,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Value: defaultConfig, Usage: "configuration `FILE`; it may be missing", Sources: cli.EnvVars("QUIESCE_CONFIG")},
		},
		Commands: []*cli.Command{
			runCommand(), applyCommand(), statusCommand(), holdCommand(), releaseCommand(), thawCommand(),
			planCommand(), drainCommand(), resumeCommand(), reportCommand(), doctorCommand(),
		},
		CommandNotFound: func(_ context.Context, _ *cli.Command, name string) {
			fmt.Fprintf(os.Stderr, "quiesce: no command %q; see quiesce --help\n", name)
			os.Exit(exitRefused)
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return refuse("no command %q; see quiesce --help", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
	for _, c := range append(root.Commands, root) {
		c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
			return refuse("%s: %w; see %s --help", c.Name, err, c.FullName())
		}
		if c.ArgsUsage == "" && c != root {
			c.Before = noArgs
		}
	}
	return root
}

// noArgs refuses arguments of a command that takes none.
func noArgs(ctx context.Context, c *cli.Command) (context.Context, error) {
	if c.Args().Present() {
		return ctx, refuse("%s: unexpected argument %q; see %s --help", c.Name, c.Args().First(), c.FullName())
	}
	return ctx, nil
}

// logging sets up the process's log and puts it into the context.
func logging(ctx context.Context, cfg Config) (context.Context, error) {
	l := logrus.New()
	level, err := logrus.ParseLevel(cfg.LogLevel)
	if err != nil {
		return ctx, refuse("logLevel: %w", err)
	}
	l.SetLevel(level)
	if cfg.LogFormat == "json" {
		l.SetFormatter(&logrus.JSONFormatter{TimestampFormat: log.RFC3339NanoFixed})
	} else {
		l.SetFormatter(&logrus.TextFormatter{TimestampFormat: log.RFC3339NanoFixed, FullTimestamp: true, DisableColors: true})
	}
	return log.WithLogger(ctx, logrus.NewEntry(l)), nil
}
