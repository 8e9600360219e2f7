package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

var update = flag.Bool("update", false, "write docs/usage/quiesce-installer.md")

func TestCommandReference(t *testing.T) {
	const file = "../docs/usage/quiesce-installer.md"
	text := "# quiesce-installer\n\n" + commands(command(io.Discard, io.Discard)) +
		"\nExit codes: 0 done, 1 failed, 2 refused (the request is at fault, and nothing was changed). This page is made of the code.\n"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != text {
		t.Errorf("%s is stale (%v): go test ./installer -run Reference -update", file, err)
	}
}

// commands lists what a program takes.
func commands(root *cli.Command) string {
	var b strings.Builder
	flags := func(c *cli.Command) {
		for _, f := range c.Flags {
			doc, ok := f.(cli.DocGenerationFlag)
			if v, hidden := f.(cli.VisibleFlag); !ok || hidden && !v.IsVisible() {
				continue
			}
			fmt.Fprintf(&b, "- %s: %s\n", named(f, doc), strings.ReplaceAll(doc.GetUsage(), "`", ""))
		}
	}
	fmt.Fprintf(&b, "%s\n\n", root.Usage)
	flags(root)
	for _, c := range root.Commands {
		if c.Hidden {
			continue
		}
		fmt.Fprintf(&b, "\n## %s %s %s\n\n%s\n", root.Name, c.Name, c.ArgsUsage, c.Usage)
		if c.Description != "" {
			fmt.Fprintf(&b, "\n%s\n", c.Description)
		}
		b.WriteString("\n")
		flags(c)
	}
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), " \n", "\n"), "\n\n\n", "\n\n")
}

func named(f cli.Flag, doc cli.DocGenerationFlag) string {
	var all []string
	for _, n := range f.Names() {
		dash := "--"
		if len(n) == 1 {
			dash = "-"
		}
		all = append(all, "`"+dash+n+"`")
	}
	text := strings.Join(all, ", ")
	if env := doc.GetEnvVars(); len(env) > 0 {
		text += " (" + strings.Join(env, ", ") + ")"
	}
	return text
}
