// Package story is the frame of the commands that play a story on throwaway real nodes: signals, the one sentence when it
// cannot go on, out/NAME.json with the figures and out/evidence/NAME/ with what they come from.
package story

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
)

// Out is where a story's figures and evidence go, below out/ in the working directory.
type Out struct {
	name  string
	began time.Time
}

// Main plays a story and ends the program: with 1 and one sentence if play returns an error.
func Main(name string, play func(ctx context.Context, out Out) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out := Out{name: name, began: time.Now()}
	err := errors.Join(os.RemoveAll(out.Evidence()), os.MkdirAll(out.Evidence(), 0o755))
	if err == nil {
		err = play(ctx, out)
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Evidence is the directory of what the figures come from; it is empty when a story begins.
func (o Out) Evidence() string { return filepath.Join("out", "evidence", o.name) }

// Keep writes a file of evidence.
func (o Out) Keep(file string, data []byte) error {
	if err := os.WriteFile(filepath.Join(o.Evidence(), file), data, 0o644); err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	return nil
}

// Figures writes out/NAME.json.
func (o Out) Figures(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join("out", o.name+".json"), append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

// Say prints a line of progress after the seconds since the beginning.
func (o Out) Say(format string, a ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(o.began).Seconds(), fmt.Sprintf(format, a...))
}
