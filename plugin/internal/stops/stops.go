// Package stops counts the stops that a containerd has begun and not ended. Neither CRI nor NRI tells of them; the gRPC
// counters of containerd's metrics do, where they are served ([metrics] address).
package stops

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
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
	calls, counted := map[string]float64{}, false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		labels, value, ok := strings.Cut(rest, "} ")
		sign := map[string]float64{"grpc_server_started_total": 1, "grpc_server_handled_total": -1}[name]
		if sign == 0 || !ok {
			continue
		}
		counted = true
		n, err := strconv.ParseFloat(strings.Fields(value + " ")[0], 64)
		if err != nil {
			return nil, fmt.Errorf("read containerd's metrics: %w", err)
		}
		for _, m := range methods() {
			if strings.Contains(labels, `grpc_method="`+m+`"`) && strings.Contains(labels, `grpc_service="runtime.v1.RuntimeService"`) {
				calls[m] += sign * n
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read containerd's metrics: %w", err)
	}
	if !counted {
		return nil, ErrNotCounted
	}
	for _, m := range methods() {
		if calls[m] > 0 {
			busy = append(busy, fmt.Sprintf("%s (%.0f)", m, calls[m]))
		}
	}
	return busy, nil
}
