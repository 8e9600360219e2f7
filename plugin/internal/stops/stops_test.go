package stops

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const text = `# TYPE grpc_server_started_total counter
grpc_server_started_total{grpc_method="StopContainer",grpc_service="runtime.v1.RuntimeService",grpc_type="unary"} 7
grpc_server_started_total{grpc_method="StopPodSandbox",grpc_service="runtime.v1.RuntimeService",grpc_type="unary"} 3
grpc_server_started_total{grpc_method="Version",grpc_service="runtime.v1.RuntimeService",grpc_type="unary"} 90
# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code="OK",grpc_method="StopContainer",grpc_service="runtime.v1.RuntimeService",grpc_type="unary"} 4
grpc_server_handled_total{grpc_code="Canceled",grpc_method="StopContainer",grpc_service="runtime.v1.RuntimeService",grpc_type="unary"} 1
grpc_server_handled_total{grpc_code="OK",grpc_method="StopPodSandbox",grpc_service="runtime.v1.RuntimeService",grpc_type="unary"} 3
`

func TestInFlight(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/metrics" {
			_, _ = w.Write([]byte(text))
		}
	}))
	defer s.Close()
	got, err := InFlight(t.Context(), strings.TrimPrefix(s.URL, "http://"))
	if err != nil || !slices.Equal(got, []string{"StopContainer (2)"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := count(strings.NewReader("go_goroutines 8\n")); !errors.Is(err, ErrNotCounted) {
		t.Errorf("without counters: %v", err)
	}
	s.Close()
	if _, err := InFlight(t.Context(), strings.TrimPrefix(s.URL, "http://")); err == nil {
		t.Error("nobody answers, and it is no error")
	}
}
