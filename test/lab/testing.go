package lab

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"quiesce/test/node"
)

// Beside runs a package's tests, n of them beside each other unless the command line says how many: tests of nodes mostly
// wait, and go test would run no more of them than there are processors.
func Beside(m *testing.M, n int) (code int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// New boots a lab for a test. The context ends with the test, or after six minutes: something hangs then.
// If the test failed, the node's journal is kept in out/ beside it.
func New(t testing.TB, o Options) (context.Context, *Lab) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 6*time.Minute, errors.New("the test's six minutes are over"))
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

// Must runs a pod to its end.
func (l *Lab) Must(ctx context.Context, t testing.TB, pod node.Pod) *node.RunningPod {
	t.Helper()
	p, err := l.RunPod(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ReadConfig reads containerd's usual config.
func (l *Lab) ReadConfig(t testing.TB) string {
	t.Helper()
	b, err := l.ReadFile("/etc/containerd/config.toml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
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
