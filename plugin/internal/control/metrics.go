package control

import (
	"github.com/prometheus/client_golang/prometheus"

	"quiesce/plugin/internal/gate"
)

// collector makes metrics of Status at each scrape; nothing else counts.
type collector struct{ b Backend }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("quiesce_"+name, help, labels, nil)
}

var (
	nriConnected  = desc("nri_connected", "Whether the NRI plugin is registered and synchronized.")
	gatePhase     = desc("gate_phase", "1 for the phase the gate is in.", "phase")
	gateChanged   = desc("gate_last_transition_timestamp_seconds", "When the gate changed its phase last.")
	gateBlockers  = desc("gate_blocked_since_timestamp_seconds", "Since when a blocker objects.", "reason")
	entries       = desc("entries_pending", "Entries that are staged and not live.")
	inFlight      = desc("installers_in_flight", "Installer pods in flight.")
	stuck         = desc("installers_stuck", "Installer pods in flight for longer than installerTimeout.")
	handlerPods   = desc("handler_pods", "Pods that use a runtime handler.", "handler")
	restarts      = desc("restarts_total", "Restarts of the runtime by quiesce.", "result")
	restartTook   = desc("last_restart_seconds", "How long the last restart took until it was verified.")
	restartSaved  = desc("last_restart_protected_containers", "Containers that were frozen during the last restart, so that their exit code is kept.")
	restartFrozen = desc("last_restart_frozen_seconds", "How long the first of them was frozen.")
	restartAtRisk = desc("last_restart_unprotected_containers", "Containers whose exit code was at risk in the last restart.")
	restartLosses = desc("last_restart_lost_exit_codes", "Containers whose exit code the last restart cost.")
)

// Describe is part of prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		nriConnected, gatePhase, gateChanged, gateBlockers, entries, inFlight, stuck, handlerPods, restarts, restartTook, restartLosses,
		restartSaved, restartFrozen, restartAtRisk,
	} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.b.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(nriConnected, one(s.NRI.Connected))
	for _, p := range []gate.Phase{gate.Idle, gate.Collecting, gate.Applying, gate.Held} {
		gauge(gatePhase, one(s.Gate.Phase == p), string(p))
	}
	gauge(gateChanged, float64(s.Gate.Since.Unix()))
	since := map[string]int64{}
	for _, b := range s.Gate.Blockers {
		if at, ok := since[b.Reason]; !ok || b.Since.Unix() < at {
			since[b.Reason] = b.Since.Unix()
		}
	}
	for reason, at := range since {
		gauge(gateBlockers, float64(at), reason)
	}
	gauge(entries, float64(len(s.Pending)))
	gauge(inFlight, float64(len(s.Installers)))
	n := 0.0
	for _, i := range s.Installers {
		n += one(i.Stuck)
	}
	gauge(stuck, n)
	for _, h := range s.Handlers {
		gauge(handlerPods, float64(len(h.Pods)), h.Name)
	}
	ch <- prometheus.MustNewConstMetric(restarts, prometheus.CounterValue, float64(s.Restart.Done), "verified")
	ch <- prometheus.MustNewConstMetric(restarts, prometheus.CounterValue, float64(s.Restart.Broken), "failed")
	gauge(restartTook, s.Restart.Took.Seconds())
	gauge(restartSaved, float64(s.Restart.Freeze.Containers))
	gauge(restartFrozen, s.Restart.Freeze.Longest.Seconds())
	gauge(restartAtRisk, float64(len(s.Restart.Freeze.Unprotected)))
	gauge(restartLosses, float64(len(s.Restart.Lost)))
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
