package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// New boots a node for a test and closes it when the test ends. If the test failed, the node's journal is
// written to out/ in the module's root, and its end to the test's log.
func New(t testing.TB, cfg Config) *Node {
	t.Helper()
	n, err := Boot(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			n.report(t)
		}
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	return n
}

// Containerd returns the program of a containerd version for a test that boots no node: the cache's, built when it is not
// there. With -short such a test is left out where it would have to be built.
func Containerd(t testing.TB, version string) string {
	t.Helper()
	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	module, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	tool, err := containerdTool(version)
	if err != nil {
		t.Fatal(err)
	}
	file := c.path(tool.dir(), "containerd")
	if _, err := os.Stat(file); err != nil && testing.Short() {
		t.Skip("make unit builds no containerd")
	}
	k := &Kit{cache: c, module: module}
	if _, err := k.tool(t.Context(), tool); err != nil {
		t.Fatal(err)
	}
	return file
}

// report keeps what explains a failure.
func (n *Node) report(t testing.TB) {
	journal := n.journal(context.WithoutCancel(t.Context()))
	t.Logf("end of the journal of %s:\n%s", n.ID, tail(journal, 60))
	out := filepath.Join(n.kit.module, "out")
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + "-" + n.ID + ".journal"
	err := os.MkdirAll(out, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(out, name), []byte(journal), 0o644)
	}
	if err != nil {
		t.Logf("keep journal: %v", err)
		return
	}
	t.Logf("whole journal: out/%s", name)
}
