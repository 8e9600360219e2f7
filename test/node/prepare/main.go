// Command prepare fills the cache of package node, so that a later test run does not have to build anything.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"quiesce/test/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	all := flag.Bool("all", false, "every version of containerd, Kubernetes, and cloud-init")
	flag.Parse()
	kit, err := prepare(ctx, *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
	fmt.Println(kit.Dir())
}

func prepare(ctx context.Context, all bool) (*node.Kit, error) {
	if !all {
		return node.Prepare(ctx)
	}
	kit, err := node.Prepare(ctx, node.Matrix()...)
	if err != nil {
		return nil, err
	}
	if _, err := kit.Kubernetes(ctx); err != nil {
		return nil, err
	}
	_, err = kit.CloudInit(ctx)
	return kit, err
}
