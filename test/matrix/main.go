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
	for _, u := range unlisted(cells) {
		fmt.Println("NO LISTED REASON", u)
	}
	switch {
	case t.Misses > 0:
		return errors.New("there are silent misses: see above")
	case len(unlisted(cells)) > 0:
		return errors.New("configs that containerd accepts are refused for no reason that is listed: see above")
	}
	return nil
}
