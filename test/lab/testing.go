package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quiesce/test/node"
)

// New boots a lab for a test. The context ends a minute before go test's own limit does, or with the test.
// If the test failed, the node's journal is kept in out/ beside it.
func New(t testing.TB, o Options) (context.Context, *Lab) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, errors.New("the test's three minutes are over"))
	t.Cleanup(cancel)
	l, err := Boot(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			l.keep(t)
		}
		if err := l.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	return ctx, l
}

func (l *Lab) keep(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	journal, err := l.Journal(ctx)
	if err != nil {
		t.Logf("read journal: %v", err)
	}
	kit, err := node.Prepare(ctx)
	if err != nil {
		t.Logf("keep journal: %v", err)
		return
	}
	file := filepath.Join(kit.Module(), "out", strings.ReplaceAll(t.Name(), "/", "-")+".journal")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(journal), 0o644)); err != nil {
		t.Logf("keep journal: %v", err)
	}
	lines := strings.Split(journal, "\n")
	t.Logf("end of the node's journal, all of it is in out/%s:\n%s", filepath.Base(file), strings.Join(lines[max(0, len(lines)-60):], "\n"))
}
