package node_test

import (
	"strings"
	"testing"

	"quiesce/test/node"
)

// TestContainerds boots a node with each containerd that quiesce is tested with.
func TestContainerds(t *testing.T) {
	for _, version := range node.Matrix() {
		t.Run(version, func(t *testing.T) {
			n := node.New(t, node.Config{Name: "matrix", Containerd: version})
			out, err := n.Exec(budget(t), "containerd", "--version")
			if err != nil || !strings.Contains(out, version) {
				t.Errorf("containerd says %q, %v", out, err)
			}
			testExitCode(t, n)
			testInitContainer(t, n)
			testRestart(t, n)
		})
	}
}
