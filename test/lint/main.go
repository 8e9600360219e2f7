// Command lint runs golangci-lint, which it builds once into the cache of tools, over the whole module.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"quiesce/test/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	program, module, err := node.Linter(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "run", "--timeout", "30m", "./...")
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "GOLANGCI_LINT_CACHE="+filepath.Join(filepath.Dir(program), "cache"))
	return cmd.Run()
}
