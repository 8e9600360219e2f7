// Package stops counts the stops that a containerd has begun and not ended. Neither CRI nor NRI tells of them; the gRPC
// counters of containerd's metrics do, where they are served ([metrics] address).
package stops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// methods are those of CRI in which a restart must not come.
func methods() []string {
	return []string{"StopContainer", "StopPodSandbox", "RemovePodSandbox"}
}

// ErrNotCounted says that the metrics have no such counters.
var ErrNotCounted = errors.New("containerd's metrics do not count gRPC calls")

// maxMetrics is how much of an answer is read, in bytes.
const maxMetrics = 16 << 20

// InFlight asks containerd's metrics on a TCP address, and names the methods with calls in flight.
func InFlight(ctx context.Context, address string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("ask containerd's metrics: %w", err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask containerd's metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask containerd's metrics: %s", resp.Status)
	}
	return count(io.LimitReader(resp.Body, maxMetrics))
}

// count reads Prometheus' text format: of a method, calls started less calls handled with whatever code.
func count(r io.Reader) (busy []string, err error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("read containerd's metrics: %w", err)
	}
	started, handled := families["grpc_server_started_total"], families["grpc_server_handled_total"]
	if started == nil || handled == nil {
		return nil, ErrNotCounted
	}
	for _, m := range methods() {
		if n := calls(started, m) - calls(handled, m); n > 0 {
			busy = append(busy, fmt.Sprintf("%s (%.0f)", m, n))
		}
	}
	return busy, nil
}

// calls sums a counter over the calls of a method of CRI.
func calls(f *dto.MetricFamily, method string) (n float64) {
	for _, metric := range f.GetMetric() {
		is := map[string]string{}
		for _, l := range metric.GetLabel() {
			is[l.GetName()] = l.GetValue()
		}
		if is["grpc_method"] == method && is["grpc_service"] == "runtime.v1.RuntimeService" {
			n += metric.GetCounter().GetValue()
		}
	}
	return n
}
