package mutant_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"quiesce/test/mutant"
)

// TestEachBuilds: the text that a mutant changes is still there.
func TestEachBuilds(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range mutant.Names() {
		flag, err := mutant.Flag(root, t.TempDir(), name)
		if err != nil {
			t.Error(err)
			continue
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, flag, "./plugin")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if _, err := mutant.Flag(root, t.TempDir(), "no-such"); err == nil {
		t.Error("there is a mutant that nobody made")
	}
}
