// Command chaos interrupts apply at every step of its own, in every way, and at a draw of all changes of files: see
// package crash. It writes out/chaos.json and fails if anything is wrong.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"quiesce/test/crash"
	"quiesce/test/node"
)

func main() {
	plan := crash.Plan{Seed: crash.Seed(), Whole: true, Say: func(f string, a ...any) { fmt.Printf(f+"\n", a...) }}
	flag.BoolVar(&plan.Whole, "whole", true, "every step with every action")
	flag.IntVar(&plan.Files, "files", 60, "how many more cases to draw for each story")
	flag.IntVar(&plan.Benches, "nodes", 2, "how many nodes at once")
	mutant := flag.String("mutant", "", "with programs that leave syncs out, which must be found: no-sync or no-file-sync")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, plan, *mutant)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plan crash.Plan, mutant string) error {
	kit, err := node.Prepare(ctx)
	if err != nil {
		return err
	}
	if mutant != "" {
		flag, err := crash.Mutate(kit, mutant)
		if err != nil {
			return err
		}
		plan.Build = []string{flag}
	}
	fmt.Printf("CHAOS_SEED=%d\n", plan.Seed)
	rep, err := plan.Run(ctx)
	b, jerr := json.MarshalIndent(rep, "", "  ")
	file := filepath.Join(kit.Module(), "out", "chaos.json")
	err = errors.Join(err, jerr, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, append(b, '\n'), 0o644))
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", b)
	switch found := len(rep.Wrong) > 0; {
	case len(rep.Faults) > 0:
		return fmt.Errorf("%d faults of the nodes", len(rep.Faults))
	case found != (mutant != ""):
		return fmt.Errorf("%d violations in %d cases", len(rep.Wrong), rep.Cases)
	}
	return nil
}
