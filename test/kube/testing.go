package kube

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quiesce/test/node"
)

// New boots a cluster for a test and closes it at the test's end. If the test failed, the journal and what the
// API server knows are kept in out/.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Boot(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.Explain(t)
		}
		if err := c.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	return c
}

// Explain keeps in out/ what explains a failure.
func (c *Cluster) Explain(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	kit, err := node.Prepare(ctx)
	if err != nil {
		t.Logf("explain: %v", err)
		return
	}
	dir := filepath.Join(kit.Module(), "out", strings.ReplaceAll(t.Name(), "/", "-"))
	if err := c.Keep(ctx, dir); err != nil {
		t.Logf("explain: %v", err)
	}
	journal, err := c.Journal(ctx)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "journal"), []byte(journal), 0o644)
	}
	if err != nil {
		t.Logf("explain: %v", err)
	}
	t.Logf("journal, Jobs, pods and events are in out/%s", filepath.Base(dir))
}
