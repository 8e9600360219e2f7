// Command try is for measurements: it adds a handler to a config, checked as apply checks it, but without a journal and
// without a restart. It is part of no release.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"quiesce/plugin/internal/containerd/config"
	"quiesce/plugin/stage"
)

func main() {
	path := flag.String("config", "", "containerd's config file")
	name := flag.String("handler", "try", "name of the handler")
	flag.Parse()
	if err := add(context.Background(), *path, *name); err != nil { //nolint:forbidigo // a main
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1) //nolint:forbidigo // a main
	}
}

func add(ctx context.Context, path, name string) error {
	c, err := config.Read(config.Place{Root: path})
	if err != nil {
		return err
	}
	want := []config.Handler{{Name: name, Type: "/opt/quiesce/shims/try/containerd-shim-try-v1", Entry: "install-try"}}
	changes, err := c.Change(want)
	if err != nil {
		return err
	}
	if err := config.Check(ctx, "", c, changes, want, nil); err != nil {
		return err
	}
	root, err := stage.OpenTree("/") // a drop-in lies wherever the config imports it from
	if err != nil {
		return err
	}
	defer root.Close()
	for _, ch := range changes {
		file := strings.TrimPrefix(ch.Path, "/")
		if err := root.Mkdir(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := root.WriteBytes(file, ch.New, stage.Attr{Mode: ch.Mode}); err != nil {
			return err
		}
	}
	return nil
}
