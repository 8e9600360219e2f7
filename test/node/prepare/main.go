// Command prepare fills the cache of package node, so that a later test run does not have to build anything.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"quiesce/test/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	kit, err := node.Prepare(ctx, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
	fmt.Println(kit.Dir())
}
