package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"quiesce/test/node"
)

// workers is how many cells are tried at a time.
const workers = 2

// file is a config of the corpus.
type file struct {
	name string
	data []byte
}

// readCorpus reads every file below dir but the list of them.
func readCorpus(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "MANIFEST.tsv" {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path) // it is below
		files = append(files, file{name, data})
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the corpus of configs is not there: %w; name a directory of containerd configs with MATRIX_DIR", err)
	case err != nil:
		return nil, fmt.Errorf("read corpus: %w", err)
	case len(files) == 0:
		return nil, fmt.Errorf("read corpus: %s has no files", dir)
	}
	return files, nil
}

// all tries every cell.
func all(ctx context.Context, kit *node.Kit, files []file) ([]*cell, error) {
	tmp, err := os.MkdirTemp("/dev/shm", "quiesce-matrix-") // in memory, where there is such a place
	if err != nil {
		tmp, err = os.MkdirTemp("", "quiesce-matrix-")
	}
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	editor := filepath.Join(tmp, "editor")
	build := exec.CommandContext(ctx, "go", "build", "-o", editor, "./plugin/internal/containerd/config/editor")
	build.Dir, build.Env, build.Stderr = kit.Module(), append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build editor: %w", err)
	}
	var cells []*cell
	for _, version := range node.Matrix() {
		tools, err := kit.Tools(ctx, version)
		if err != nil {
			return nil, err
		}
		some, err := onVersion(ctx, filepath.Join(tmp, version), filepath.Join(tools, "containerd"), editor, version, files)
		if err != nil {
			return nil, fmt.Errorf("containerd %s: %w", version, err)
		}
		cells = append(cells, some...)
	}
	return cells, nil
}

// onVersion tries the cells of one containerd.
func onVersion(ctx context.Context, dir, containerd, editor, version string, files []file) ([]*cell, error) {
	group, ctx := errgroup.WithContext(ctx)
	results := make([][]*cell, len(files))
	queue := make(chan int, len(files))
	for i := range files {
		queue <- i
	}
	close(queue)
	var jails []*jail // all are filled before anything is started: a child would hold files open that are being written
	for w := range workers {
		j, err := newJail(filepath.Join(dir, fmt.Sprint(w)), containerd, editor)
		if err != nil {
			return nil, err
		}
		jails = append(jails, j)
	}
	for _, j := range jails {
		if err := j.start(ctx); err != nil {
			return nil, err
		}
	}
	for _, j := range jails {
		group.Go(func() (err error) {
			defer func() { err = errors.Join(err, j.close()) }()
			for i := range queue {
				for _, operation := range operations {
					c := &cell{file: files[i].name, version: version, operation: operation}
					if err := c.try(ctx, j, files[i].data); err != nil {
						return fmt.Errorf("%s, %s: %w", c.file, operation, err)
					}
					results[i] = append(results[i], c)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.Concat(results...), err
}
