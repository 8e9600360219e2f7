package job

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quiesce/test/lab"
)

// TestJob_Documentation runs what the README and the five-minute start tell people to type on a node, as they are written.
func TestJob_Documentation(t *testing.T) {
	t.Parallel()
	for page, section := range map[string]string{"README.md": "## On a real node", "docs/usage/start.md": "## On one node"} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			commands := typed(t, filepath.Join("../..", page), section)
			ctx, l := lab.New(t, lab.Options{Name: "docs", NoHost: true})
			_, err := l.Exec(ctx, "cp", "/usr/local/bin/containerd-shim-runc-v2", "/root/quiesce/containerd-shim-spin-v2")
			check(t, err)
			for _, c := range commands {
				if strings.HasSuffix(c, "host --remove") { // it refuses before, as the page says
					check(t, l.Until(ctx, "the handler is removed", func(ctx context.Context) (bool, error) {
						rs, err := l.Results(ctx)
						return rs["spin-v2"].Phase == "removed", err
					}))
				}
				out, err := l.Exec(ctx, "sh", "-c", "cd /root/quiesce && "+c)
				t.Logf("# %s\n%s", c, out)
				check(t, err)
			}
			if len(commands) < 5 {
				t.Errorf("only %d commands were found", len(commands))
			}
		})
	}
}

// typed are the commands of a section's first blocks: the indented lines up to the next heading, without those that build
// and copy the programs.
func typed(t *testing.T, page, section string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(page)
	check(t, err)
	_, text, found := strings.Cut(string(b), section+"\n")
	if !found {
		t.Fatalf("%s has no section %s", page, section)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			break
		}
		c, indented := strings.CutPrefix(line, "    ")
		c, _, _ = strings.Cut(c, " #")
		if c = strings.TrimSpace(c); indented && !strings.HasPrefix(c, "make ") && !strings.HasPrefix(c, "scp ") {
			out = append(out, c)
		}
	}
	return out
}
