package control

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/gate"
)

// metric describes one metric, and reads it from Status at each scrape: nothing else counts. The lists are all there are,
// and docs/usage/metrics.md is made of them.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	read       func(s Status, emit emit)
}

// emit tells a value, with the values of the labels.
type emit func(v float64, labels ...string)

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

func value(f func(s Status) float64) func(Status, emit) {
	return func(s Status, e emit) { e(f(s)) }
}

// metrics lists all but the histogram.
func metrics() []metric {
	list := []metric{
		{"build_info", "1, for the version that runs.", gauge, []string{"version", "goversion"}, func(s Status, e emit) { e(1, s.Version, runtime.Version()) }},
		{"nri_connected", "Whether the NRI plugin is registered and synchronized.", gauge, nil, value(func(s Status) float64 { return one(s.NRI.Connected) })},
		{"nri_last_transition_timestamp_seconds", "When the NRI connection was made or lost last.", gauge, nil, value(func(s Status) float64 { return unix(s.NRI.Since) })},
		{"runtime_answers", "Whether the runtime's CRI answered when it was asked last.", gauge, nil, value(func(s Status) float64 { return one(s.Runtime.Error == "" && !s.Runtime.Listed.IsZero()) })},
		{"runtime_listed_timestamp_seconds", "When the runtime's pods were listed last: every two minutes while nothing happens.", gauge, nil, value(func(s Status) float64 { return unix(s.Runtime.Listed) })},
		{"handler_pods", "Pods that use a runtime handler; the empty one is the runtime's default.", gauge, []string{"handler"}, handlerPods},
		{"handler_live", "1 for each handler that quiesce has installed.", gauge, []string{"handler"}, handlerLive},
	}
	return append(append(append(list, gateMetrics()...), restartMetrics()...), drainMetrics()...)
}

func gateMetrics() []metric {
	return []metric{
		{"gate_phase", "1 for the phase the gate is in.", gauge, []string{"phase"}, gatePhases},
		{"gate_last_transition_timestamp_seconds", "When the gate changed its phase last.", gauge, nil, value(func(s Status) float64 { return unix(s.Gate.Since) })},
		{"gate_blocked_since_timestamp_seconds", "Since when a blocker keeps the gate closed.", gauge, []string{"reason"}, gateBlockers},
		{"entries_pending", "Entries that are staged and not live.", gauge, nil, value(func(s Status) float64 { return float64(len(s.Pending)) })},
		{"entries_rejected", "Entries that were rejected and are kept, with their reasons; old ones are dropped.", gauge, nil, value(func(s Status) float64 { return float64(s.AllBad) })},
		{"installers_in_flight", "Installer pods in flight.", gauge, nil, value(func(s Status) float64 { return float64(len(s.Installers)) })},
		{"installers_stuck", "Installer pods in flight for longer than installerTimeout.", gauge, nil, stuckInstallers},
	}
}

func restartMetrics() []metric {
	return []metric{
		{"restarts_total", "Restarts of the runtime by quiesce.", counter, []string{"result"}, func(s Status, e emit) {
			e(float64(s.Restart.Done), "verified")
			e(float64(s.Restart.Broken), "failed")
		}},
		{"restart_seconds_total", "How long all of them took, each until it was verified or had failed.", counter, nil, value(func(s Status) float64 { return s.Restart.AllTook.Seconds() })},
		{"exit_codes_protected_total", "Containers that were frozen during restarts, so that their exit codes are kept.", counter, nil, value(func(s Status) float64 { return float64(s.Restart.AllProtected) })},
		{"exit_codes_lost_total", "Containers whose exit codes restarts cost.", counter, nil, value(func(s Status) float64 { return float64(s.Restart.AllLost) })},
		{"last_restart_timestamp_seconds", "When the last restart began; 0: never.", gauge, nil, value(func(s Status) float64 { return unix(s.Restart.Began) })},
		{"last_restart_seconds", "How long the last restart took until it was verified.", gauge, nil, value(func(s Status) float64 { return s.Restart.Took.Seconds() })},
		{"last_restart_frozen_seconds", "How long the first container was frozen in the last restart.", gauge, nil, value(func(s Status) float64 { return s.Restart.Freeze.Longest.Seconds() })},
		{"last_restart_protected_containers", "Containers that were frozen during the last restart.", gauge, nil, value(func(s Status) float64 { return float64(s.Restart.Freeze.Containers) })},
		{"last_restart_unprotected_containers", "Containers whose exit code was at risk in the last restart.", gauge, nil, value(func(s Status) float64 { return float64(len(s.Restart.Freeze.Unprotected)) })},
		{"last_restart_lost_exit_codes", "Containers whose exit code the last restart cost.", gauge, nil, value(func(s Status) float64 { return float64(len(s.Restart.Lost)) })},
	}
}

func drainMetrics() []metric {
	return []metric{
		{"drain_phase", "1 for the phase of the last drain; all 0: there never was one.", gauge, []string{"phase"}, drainPhases},
		{"drain_began_timestamp_seconds", "When the last drain began; 0: never.", gauge, nil, value(func(s Status) float64 { return unix(s.Drain.Began) })},
		{"drain_duration_seconds", "How long the last drain took, or has taken so far.", gauge, nil, value(func(s Status) float64 { return s.Drain.Took.Seconds() })},
		{"drain_containers", "Containers of the last drain, by tier and by how they ended.", gauge, []string{"tier", "outcome"}, drainOutcomes},
		{"drain_refused_total", "Containers that were not created because of a drain, since the daemon started.", counter, nil, value(func(s Status) float64 { return float64(s.Drain.Refused) })},
	}
}

func handlerPods(s Status, e emit) {
	for _, h := range s.Handlers {
		e(float64(len(h.Pods)), h.Name)
	}
}

func handlerLive(s Status, e emit) {
	for _, h := range s.Handlers {
		if h.Entry != "" {
			e(1, h.Name)
		}
	}
}

func gatePhases(s Status, e emit) {
	for _, p := range []gate.Phase{gate.Idle, gate.Collecting, gate.Applying, gate.Held} {
		e(one(s.Gate.Phase == p), string(p))
	}
}

func gateBlockers(s Status, e emit) {
	since := map[string]time.Time{}
	for _, b := range s.Gate.Blockers {
		if at, ok := since[b.Reason]; !ok || b.Since.Before(at) {
			since[b.Reason] = b.Since
		}
	}
	for reason, at := range since {
		e(unix(at), reason)
	}
}

func stuckInstallers(s Status, e emit) {
	n := 0.0
	for _, i := range s.Installers {
		n += one(i.Stuck)
	}
	e(n)
}

func drainPhases(s Status, e emit) {
	for _, p := range []drain.Phase{drain.Draining, drain.Drained, drain.Interrupted, drain.Ended} {
		e(one(s.Drain.Phase == p), string(p))
	}
}

func drainOutcomes(s Status, e emit) {
	for tier, by := range s.Drain.Outcomes {
		for o, n := range by {
			if o == "" {
				o = "not yet"
			}
			e(float64(n), tier, string(o))
		}
	}
}

// The histogram is NRI's.
const (
	callbackName = "nri_callback_seconds"
	callbackHelp = "How long NRI callbacks took. The runtime drops a plugin that takes two seconds."
)

func desc(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("quiesce_"+name, help, labels, nil)
}

// collector makes metrics of Status at each scrape.
type collector struct{ b Backend }

// Describe is part of prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics() {
		ch <- desc(m.name, m.help, m.labels)
	}
	ch <- desc(callbackName, callbackHelp, nil)
}

// Collect is part of prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.b.Figures()
	for _, m := range metrics() {
		d := desc(m.name, m.help, m.labels)
		m.read(s, func(v float64, labels ...string) { ch <- prometheus.MustNewConstMetric(d, m.kind, v, labels...) })
	}
	buckets := map[float64]uint64{}
	for bound, n := range s.NRI.Callbacks.Buckets {
		buckets[bound.Seconds()] = n
	}
	ch <- prometheus.MustNewConstHistogram(desc(callbackName, callbackHelp, nil), s.NRI.Callbacks.Count, s.NRI.Callbacks.Sum.Seconds(), buckets)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unix is a time in seconds; 0: there is none.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// reference is docs/usage/metrics.md.
func reference() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nOn the control socket, and on `metricsAddress` where that is set:\n\n" +
		"    curl --unix-socket /run/quiesce/control.sock http://quiesce/metrics\n\n" +
		"Rules and a dashboard are in [manifests/monitoring](../../manifests/monitoring). Beside these are the `go_` and `process_` metrics of every\n" +
		"Prometheus client: memory, file descriptors, goroutines. This page is made of the code.\n\n" +
		"| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	row := func(name, kind, help string, labels ...string) {
		fmt.Fprintf(&b, "| `quiesce_%s` | %s | %s | %s |\n", name, kind, strings.Join(labels, ", "), help)
	}
	for _, m := range metrics() {
		kind := "gauge"
		if m.kind == counter {
			kind = "counter"
		}
		row(m.name, kind, m.help, m.labels...)
	}
	row(callbackName, "histogram", callbackHelp)
	return b.String()
}
