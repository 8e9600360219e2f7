// Command editor edits containerd's config as apply does, for tests that look at the result from outside: it reads
// requests from its standard input, one JSON object a line, and answers each with one. It is no part of the product.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"quiesce/plugin/internal/containerd/config"
	"quiesce/plugin/stage"
)

// request asks that want are all handlers of quiesce.
type request struct {
	Root     string           `json:"root"`
	Template string           `json:"template"`
	Binary   string           `json:"binary"` // of the containerd that is there
	Want     []config.Handler `json:"want"`
	Gone     []string         `json:"gone"`
}

type answer struct {
	Error   string `json:"error"` // why nothing was changed
	Changes int    `json:"changes"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM) //nolint:forbidigo // this is a main
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "editor:", err)
		os.Exit(1) //nolint:forbidigo // this is a main
	}
}

func run(ctx context.Context, stageDir string) error {
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(in)
	decoder.UseNumber()
	for decoder.More() {
		var r request
		if err := decoder.Decode(&r); err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		var a answer
		n, err := edit(ctx, stageDir, r)
		if a.Changes = n; err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return nil
}

// edit does what apply does between taking an entry and restarting containerd.
func edit(ctx context.Context, stageDir string, r request) (int, error) {
	version, err := config.Version(ctx, r.Binary)
	if err != nil {
		return 0, err
	}
	c, err := config.Read(config.Place{Root: r.Root, Version: version, Template: r.Template})
	if err != nil {
		return 0, err
	}
	changes, err := c.Change(r.Want)
	if err != nil {
		return 0, err
	}
	if err := config.Check(ctx, r.Binary, c, changes, r.Want, r.Gone); err != nil {
		return 0, err
	}
	return len(changes), write(stageDir, changes)
}

func write(stageDir string, changes []config.Change) (err error) {
	if err := stage.Create(stageDir); err != nil {
		return err
	}
	store, err := stage.Open(stageDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	unlock, err := store.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	var host []stage.Change
	for _, ch := range changes {
		host = append(host, stage.Change{Path: ch.Path, Old: ch.Old, New: ch.New, Attr: stage.Attr{Mode: ch.Mode, UID: ch.UID, GID: ch.GID}})
	}
	if err := store.OpenJournal(&stage.Journal{Began: time.Now()}, host); err != nil {
		return err
	}
	if err := store.Write(host); err != nil {
		return err
	}
	return store.End()
}
