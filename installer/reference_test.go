package main

import (
	"flag"
	"io"
	"testing"

	"quiesce/test/reference"
)

var update = flag.Bool("update", false, "write docs/usage/quiesce-installer.md")

func TestCommandReference(t *testing.T) {
	reference.Current(t, "quiesce-installer.md", reference.Commands(command(io.Discard, io.Discard))+
		"\nExit codes: 0 done, 1 failed, 2 refused (the request is at fault, and nothing was changed). This page is made of the code.\n", *update)
}
