package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"quiesce/test/kube"
	"quiesce/test/lab"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shared is a cluster that several tests use one after the other, beside those of other clusters. It is booted for the
// first of them. Every test has handlers and names of its own.
type shared struct {
	mu      sync.Mutex
	cluster *kube.Cluster
}

var withQuiesce, without shared

func TestMain(m *testing.M) {
	code := lab.Beside(m, 6)
	for _, s := range []*shared{&withQuiesce, &without} {
		if s.cluster == nil {
			continue
		}
		if err := s.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close cluster:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// get returns the cluster to a test, for itself until the test ends, and begins the test's time.
func (s *shared) get(t *testing.T, o kube.Options) (context.Context, *kube.Cluster) {
	t.Helper()
	t.Parallel()
	s.mu.Lock()
	t.Cleanup(s.mu.Unlock)
	ctx := limit(t)
	if s.cluster == nil {
		booted, err := kube.Boot(context.WithoutCancel(ctx), o)
		check(t, err)
		s.cluster = booted
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.cluster.Explain(t)
		}
	})
	return ctx, s.cluster
}

// limit is for what hangs: no test takes nearly as long.
func limit(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Minute, errors.New("the test's time is over"))
	t.Cleanup(cancel)
	return ctx
}

// quiesced is the shared cluster with quiesce.
func quiesced(t *testing.T) (context.Context, *kube.Cluster) {
	t.Helper()
	return withQuiesce.get(t, Options("kube", append([]string{"c-v1", "d-v1"}, tenHandlers()...)...))
}

// plain is the shared cluster without.
func plain(t *testing.T) (context.Context, *kube.Cluster) {
	t.Helper()
	return without.get(t, NaiveOptions("plain"))
}

func restarts(ctx context.Context, t testing.TB, c *kube.Cluster) int {
	t.Helper()
	r, err := c.Runtime(ctx)
	check(t, err)
	return r.Restarts
}
