// Package reference makes the pages of docs/usage that are made of the code.
package reference

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

// Current compares a page of docs/usage with what the code says, or writes it. The test runs in plugin/ or installer/.
func Current(t *testing.T, page, text string, write bool) {
	t.Helper()
	file := "../docs/usage/" + page
	if write {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != text {
		t.Errorf("%s is stale (%v): go test ./plugin ./installer -run Reference -update", file, err)
	}
}

// Commands lists what a program takes.
func Commands(root *cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", root.Name, root.Usage)
	flags(&b, root)
	for _, c := range root.Commands {
		if c.Hidden {
			continue
		}
		fmt.Fprintf(&b, "\n## %s %s %s\n\n%s\n", root.Name, c.Name, c.ArgsUsage, c.Usage)
		if c.Description != "" {
			fmt.Fprintf(&b, "\n%s\n", c.Description)
		}
		b.WriteString("\n")
		flags(&b, c)
	}
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), " \n", "\n"), "\n\n\n", "\n\n")
}

func flags(b *strings.Builder, c *cli.Command) {
	for _, f := range c.Flags {
		doc, ok := f.(cli.DocGenerationFlag)
		if v, hidden := f.(cli.VisibleFlag); !ok || hidden && !v.IsVisible() {
			continue
		}
		fmt.Fprintf(b, "- %s: %s\n", named(f, doc), strings.ReplaceAll(doc.GetUsage(), "`", ""))
	}
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
