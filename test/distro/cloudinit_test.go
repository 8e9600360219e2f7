package distro

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quiesce/test/node"
)

// TestConfig_CloudInit has cloud-init itself judge the recipe, and one with a key that it does not know.
func TestConfig_CloudInit(t *testing.T) {
	t.Parallel()
	kit, err := node.Prepare(t.Context())
	check(t, err)
	root, err := kit.CloudInit(t.Context())
	check(t, err)
	recipe, err := os.ReadFile("../../manifests/image/cloud-init.yaml")
	check(t, err)
	for name, tc := range map[string]struct{ text, says string }{
		"the recipe":  {string(recipe), "Valid"},
		"another key": {strings.Replace(string(recipe), "permissions:", "permission:", 1), "permission"},
	} {
		file, err := os.CreateTemp(filepath.Join(root, "tmp"), "quiesce-*.yaml")
		check(t, err)
		t.Cleanup(func() { check(t, os.Remove(file.Name())) })
		_, err = file.WriteString(tc.text)
		check(t, err)
		check(t, file.Close())
		cmd := exec.CommandContext(t.Context(), "chroot", root, "cloud-init", "schema", "--config-file", "/tmp/"+filepath.Base(file.Name()))
		out, err := cmd.CombinedOutput()
		if good := tc.says == "Valid"; (err == nil) != good || !strings.Contains(string(out), tc.says) {
			t.Errorf("%s: %v:\n%s", name, err, out)
		}
	}
}
