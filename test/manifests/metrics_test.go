package manifests

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

const scrape = `printf 'GET /metrics HTTP/1.0\r\n\r\n' | socat -t5 - `

// samples reads an exposition: series → value.
func samples(text string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(line, "quiesce_") {
			if i := strings.LastIndex(line, "} "); i >= 0 {
				name, value = line[:i+1], strings.TrimSpace(line[i+2:])
			}
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				all[name] = v
			}
		}
	}
	return all
}

// TestMetrics: after an install, a restart and a drain the numbers say so, on the socket and on TCP, and nothing else is on TCP.
func TestMetrics(t *testing.T) {
	ctx, l := lab.New(t, lab.Options{Name: "metrics", Shims: []string{"spin-v2"}, Config: "metricsAddress = '127.0.0.1:9477'"})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.RunPod(ctx, lab.InstallPod("spin-v2-install", "spin-v2", 0, 0))
	must(err)
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	must(err)
	_, err = l.StartPod(ctx, lab.HandlerPod("spins", "spin-v2", "trap 'exit 0' TERM; while :; do sleep 0.1; done"))
	must(err)
	_, err = l.StartPod(ctx, node.Pod{Name: "deaf", Namespace: "default", Handler: "spin-v2", Grace: 2 * time.Second, Containers: []node.Container{node.Shell("trap '' TERM; while :; do sleep 0.1; done")}})
	must(err)
	must(l.Until(ctx, "both pods are counted", func(ctx context.Context) (bool, error) {
		out, err := l.Exec(ctx, "sh", "-c", scrape+"UNIX-CONNECT:/run/quiesce/control.sock")
		return samples(out)[`quiesce_handler_pods{handler="spin-v2"}`] == 2, err
	}))
	_, _ = l.Quiesce(ctx, "drain", "--handler", "spin-v2", "--yes") // a hard kill is a failure
	out, err := l.Exec(ctx, "sh", "-c", scrape+"TCP:127.0.0.1:9477")
	must(err)
	got := samples(out)
	for series, want := range map[string]float64{
		`quiesce_nri_connected`: 1, `quiesce_runtime_answers`: 1, `quiesce_handler_live{handler="spin-v2"}`: 1,
		`quiesce_restarts_total{result="verified"}`: 1, `quiesce_restarts_total{result="failed"}`: 0, `quiesce_exit_codes_lost_total`: 0,
		`quiesce_drain_containers{outcome="exited",tier="workloads"}`: 1, `quiesce_drain_containers{outcome="killed at deadline",tier="workloads"}`: 1,
		`quiesce_gate_phase{phase="idle"}`: 1, `quiesce_entries_pending`: 0, `quiesce_drain_phase{phase="drained"}`: 1,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", series, v, ok, want)
		}
	}
	for _, series := range []string{"quiesce_last_restart_seconds", "quiesce_restart_seconds_total", "quiesce_drain_duration_seconds", "quiesce_nri_callback_seconds_count", "quiesce_last_restart_timestamp_seconds"} {
		if got[series] <= 0 {
			t.Errorf("%s is %v", series, got[series])
		}
	}
	there := map[string]bool{}
	for series := range got {
		there[regexp.MustCompile(`^[a-z_]+`).FindString(series)] = true
	}
	for name := range known(t) {
		if !there[name] && !there[name+"_count"] && name != "quiesce_gate_blocked_since_timestamp_seconds" {
			t.Errorf("there is no %s:\n%s", name, out)
		}
	}
	for series, v := range got {
		if strings.HasPrefix(series, "quiesce_nri_callback_seconds") {
			t.Logf("%s %v", series, v)
		}
	}
	other, err := l.Exec(ctx, "sh", "-c", `printf 'GET /v1/status HTTP/1.0\r\n\r\n' | socat -t5 - TCP:127.0.0.1:9477`)
	if err != nil || !strings.Contains(other, "404") {
		t.Errorf("TCP serves more than metrics (%v):\n%s", err, other)
	}
}
