package repo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quiesce/test/node"
)

// TestTags: what is released is what test nodes run.
func TestTags(t *testing.T) {
	for file, want := range map[string]string{"Makefile": "TAGS := " + node.Tags + "\n", "Dockerfile": "-tags " + node.Tags + " "} {
		b, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if n := strings.Count(text, "-X main.version="); n == 0 || n != strings.Count(text, "go build -trimpath -tags ") || n != strings.Count(text, want) {
			t.Errorf("%s: each of its %d builds must have %q, as test/node/tools.go has it", file, n, strings.TrimSpace(want))
		}
	}
}

// TestUncalledMethodsAreLeftOut: as soon as a program finds methods by their names, as text/template does, the linker keeps
// every method of every type: 4 MiB of the daemon, in the memory of each node.
func TestUncalledMethodsAreLeftOut(t *testing.T) {
	for _, program := range []string{"./plugin", "./installer"} {
		cmd := exec.Command("go", "build", "-trimpath", "-tags", node.Tags, "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "program"), program)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		deps, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %.1000s", err, deps)
		}
		for line := range strings.Lines(string(deps)) {
			if from, _, _ := strings.Cut(line, " -> "); strings.Contains(from, "<ReflectMethod>") {
				t.Fatalf("%s: %s", program, from)
			}
		}
	}
}
