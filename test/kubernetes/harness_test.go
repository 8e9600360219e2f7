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
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shared are the clusters that several tests use one after the other; each is booted for the first one that needs it.
// Every test has handlers and names of its own.
type shared struct {
	mu    sync.Mutex
	plain *kube.Cluster // without quiesce
	with  *kube.Cluster
}

var clusters shared

func TestMain(m *testing.M) {
	code := m.Run()
	if err := clusters.close(); err != nil {
		fmt.Fprintln(os.Stderr, "close clusters:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func (s *shared) close() (err error) {
	for _, c := range []*kube.Cluster{s.plain, s.with} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// get returns a cluster for a test, with a limit on the test's time.
func (s *shared) get(t testing.TB, c **kube.Cluster, o kube.Options) (context.Context, *kube.Cluster) {
	t.Helper()
	ctx := limit(t, 8*time.Minute)
	s.mu.Lock()
	defer s.mu.Unlock()
	if *c == nil {
		booted, err := kube.Boot(context.WithoutCancel(ctx), o)
		check(t, err)
		*c = booted
	}
	cluster := *c
	t.Cleanup(func() {
		if t.Failed() {
			cluster.Explain(t)
		}
	})
	return ctx, cluster
}

func limit(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("the test's time is over"))
	t.Cleanup(cancel)
	return ctx
}

// quiesced is the shared cluster with quiesce.
func quiesced(t testing.TB) (context.Context, *kube.Cluster) {
	return clusters.get(t, &clusters.with, Options("kube", append([]string{"c-v1", "d-v1"}, tenHandlers()...)...))
}

// plain is the shared cluster without.
func plain(t testing.TB) (context.Context, *kube.Cluster) {
	return clusters.get(t, &clusters.plain, NaiveOptions("plain"))
}

func restarts(ctx context.Context, t testing.TB, c *kube.Cluster) int {
	t.Helper()
	r, err := c.Runtime(ctx)
	check(t, err)
	return r.Restarts
}
