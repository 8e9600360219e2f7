// Command demo shows on a throwaway real node that restarts through the gate lose no exit code, and what the same
// restarts cost without it. It writes out/loss.json and what crictl says of each container to out/evidence/.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"quiesce/test/lab"
	"quiesce/test/loss"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := os.MkdirAll(filepath.Join("out", "evidence"), 0o755); err != nil {
		return err
	}
	began := time.Now()
	story := loss.Story{Containers: 50, Restarts: 20, Seed: uint64(began.UnixNano())}
	story.Say = func(format string, a ...any) {
		fmt.Printf("%7.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, a...))
	}
	story.Evidence = func(container string, inspect []byte) error {
		return os.WriteFile(filepath.Join("out", "evidence", "loss-"+container+".json"), inspect, 0o644)
	}
	story.Say("booting a node (seed %d)", story.Seed)
	l, err := lab.Boot(ctx, story.Lab())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	o, lost, err := story.Run(ctx, l)
	if err != nil {
		return err
	}
	for _, what := range lost {
		story.Say("lost: %s", what)
	}
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", b)
	if err := os.WriteFile(filepath.Join("out", "loss.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	if o.Lost > 0 {
		return fmt.Errorf("%d exit codes were lost", o.Lost)
	}
	return nil
}
