// Command matrix edits every config of a corpus as the product does, on every containerd of the matrix, and has that
// containerd say what it makes of it. It prints a table, and writes out/matrix.json and out/evidence/matrix.tsv.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"quiesce/test/node"
)

// corpus is where the configs are, unless MATRIX_DIR names another directory.
const corpus = "../shared/corpus/containerd-config"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir := os.Getenv("MATRIX_DIR")
	if dir == "" {
		dir = corpus
	}
	files, err := readCorpus(dir)
	if err != nil {
		return err
	}
	kit, err := node.Prepare(ctx, node.Matrix()...)
	if err != nil {
		return err
	}
	cells, err := all(ctx, kit, files)
	if err != nil {
		return err
	}
	t := count(files, cells)
	t.print(os.Stdout, cells)
	if err := t.write("out", cells); err != nil {
		return err
	}
	if t.Misses > 0 {
		return errors.New("there are silent misses: see above")
	}
	return nil
}
