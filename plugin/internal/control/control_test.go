package control

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/stage"
)

func TestMain(m *testing.M) {
	// net/http waits half a second before it closes a connection whose request it did not read.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

type backend struct {
	mu     sync.Mutex
	held   string
	fenced bool
}

func (b *backend) Figures() Status { return b.Status() }

func (b *backend) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Status{
		Version: "test", NRI: nri.Status{Connected: true, Callbacks: nri.Latency{Count: 4, Sum: time.Second, Buckets: map[time.Duration]uint64{100 * time.Microsecond: 3}}},
		Drain:      Drain{Phase: drain.Drained, Outcomes: map[string]map[drain.Outcome]int{"workloads": {drain.Killed: 2, drain.Exited: 1}, "network": {"": 1}}},
		Gate:       Gate{Phase: gate.Collecting, Since: time.Unix(100, 0), Blockers: []gate.Blocker{{Reason: gate.InstallersInFlight, Since: time.Unix(90, 0)}}},
		Installers: []Installer{{Pod: "a/b", Stuck: true}, {Pod: "a/c"}},
		Handlers:   []Handler{{Name: "spin", Pods: []string{"x/y"}}},
		Restart:    stage.Restart{Done: 3, Broken: 1, Lost: []string{"p/c"}, AllLost: 5},
	}
}

func (b *backend) Hold(who string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if who == "fail" {
		return errors.New("the disk is full")
	}
	b.held = who
	return nil
}

func (b *backend) Fence(_ context.Context, up bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fenced = up
}

func (b *backend) DrainChanged() error { return nil }

func serve(t *testing.T) (*Client, *backend, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "run", "s")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, b) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return NewClient(socket), b, socket
}

func TestVerbs(t *testing.T) {
	c, b, _ := serve(t)
	ctx := context.Background()
	s, err := c.Status(ctx)
	if err != nil || s.Version != "test" || s.Gate.Phase != gate.Collecting {
		t.Errorf("status is %+v, %v", s, err)
	}
	if err := errors.Join(c.Hold(ctx, "me"), c.Fence(ctx, true)); err != nil || b.held != "me" || !b.fenced {
		t.Errorf("%v; held by %q, fenced %v", err, b.held, b.fenced)
	}
	if err := c.Hold(ctx, "fail"); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("a failure is told as %v", err)
	}
	if err := c.Hold(ctx, ""); err == nil {
		t.Error("nobody holds")
	}
	if err := c.Alive(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Release(ctx); err != nil || b.held != "" {
		t.Errorf("%v; held by %q", err, b.held)
	}
}

func TestSocketIsRoots(t *testing.T) {
	_, _, socket := serve(t)
	for path, want := range map[string]os.FileMode{socket: 0o600 | os.ModeSocket, filepath.Dir(socket): 0o700 | os.ModeDir} {
		if fi, err := os.Stat(path); err != nil || fi.Mode() != want {
			t.Errorf("%s is %v, %v; want %v", path, fi.Mode(), err, want)
		}
	}
}

func TestBadRequests(t *testing.T) {
	_, b, socket := serve(t)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	for body, want := range map[string]int{
		`{"who":`:                http.StatusBadRequest,
		`{"what":"x"}`:           http.StatusBadRequest,
		`[]`:                     http.StatusBadRequest,
		``:                       http.StatusBadRequest,
		strings.Repeat("x", 1e6): http.StatusBadRequest,
		`{"who":"` + strings.Repeat("x", 1e5) + `"}`: http.StatusBadRequest,
	} {
		resp, err := client.Post("http://x/v1/hold", "application/json", strings.NewReader(body))
		if errors.Is(err, syscall.EPIPE) {
			continue // the server did not read it to its end
		}
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%.40q: %s", body, resp.Status)
		}
	}
	resp, err := client.Get("http://x/v1/hold")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || b.held != "" {
		t.Errorf("GET hold: %s, held by %q", resp.Status, b.held)
	}
}

func TestMetrics(t *testing.T) {
	_, _, socket := serve(t)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	resp, err := client.Get("http://x/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`quiesce_nri_connected 1`, `quiesce_gate_phase{phase="collecting"} 1`, `quiesce_gate_phase{phase="idle"} 0`,
		`quiesce_gate_blocked_since_timestamp_seconds{reason="installers in flight"} 90`, `quiesce_installers_in_flight 2`,
		`quiesce_installers_stuck 1`, `quiesce_handler_pods{handler="spin"} 1`, `quiesce_restarts_total{result="verified"} 3`,
		`quiesce_restarts_total{result="failed"} 1`, `quiesce_last_restart_lost_exit_codes 1`,
		`quiesce_nri_callback_seconds_bucket{le="0.0001"} 3`, `quiesce_nri_callback_seconds_bucket{le="+Inf"} 4`, `quiesce_nri_callback_seconds_count 4`,
		`quiesce_drain_containers{outcome="killed at deadline",tier="workloads"} 2`, `quiesce_drain_containers{outcome="not yet",tier="network"} 1`,
		`quiesce_exit_codes_lost_total 5`,
	} {
		if !strings.Contains(string(b), line+"\n") {
			t.Errorf("metrics lack %q:\n%s", line, b)
		}
	}
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "process_open_fds"} {
		if !strings.Contains(string(b), "\n"+name+" ") {
			t.Errorf("metrics lack %s:\n%s", name, b)
		}
	}
}

func TestNoDaemon(t *testing.T) {
	_, err := NewClient(filepath.Join(t.TempDir(), "none")).Status(context.Background())
	if err == nil || !strings.Contains(err.Error(), "is quiesce.service running?") {
		t.Errorf("got %v", err)
	}
}

var update = flag.Bool("update", false, "write docs/usage/metrics.md")

// TestMetricsReference: the document is what the code says.
func TestMetricsReference(t *testing.T) {
	const file = "../../../docs/usage/metrics.md"
	if *update {
		if err := os.WriteFile(file, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != reference() {
		t.Errorf("%s is stale (%v): go test ./plugin/internal/control -run MetricsReference -update", file, err)
	}
}

// TestMetricNames: base units, and no label whose values are without bounds, such as a pod's name.
func TestMetricNames(t *testing.T) {
	for _, m := range metrics() {
		if m.kind == counter != strings.HasSuffix(m.name, "_total") {
			t.Errorf("%s: a counter ends in _total, nothing else does", m.name)
		}
		if strings.Contains(m.name, "milli") || strings.Contains(m.name, "_ms") || !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s: %q", m.name, m.help)
		}
		for _, l := range m.labels {
			if !slices.Contains([]string{"version", "goversion", "handler", "phase", "reason", "result", "tier", "outcome"}, l) {
				t.Errorf("%s has the label %s", m.name, l)
			}
		}
	}
}

// TestMetricsLint: what Prometheus' own linter says of names, units and types.
func TestMetricsLint(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(collector{&backend{}})
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
