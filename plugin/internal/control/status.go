package control

import (
	"time"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/stage"
)

// Status is what the daemon tells of itself and the node.
type Status struct {
	Version    string         `json:"version"`
	Runtime    Runtime        `json:"runtime"`
	NRI        nri.Status     `json:"nri"`
	Gate       Gate           `json:"gate"`
	Handlers   []Handler      `json:"handlers"`
	Installers []Installer    `json:"installers"`
	Pending    []stage.Result `json:"pending"`
	Rejected   []stage.Result `json:"rejected"`     // the last ones, newest first
	AllBad     int            `json:"all_rejected"` // how many are kept
	Restart    stage.Restart  `json:"last_restart"`
	Drain      Drain          `json:"drain"`
	Notes      []string       `json:"notes,omitempty"` // what works less than it could, and why
}

// Runtime is the container runtime as it answered last.
type Runtime struct {
	Name    string    `json:"name,omitempty"`
	Version string    `json:"version,omitempty"`
	Unit    string    `json:"unit"`
	Listed  time.Time `json:"listed,omitzero"` // when its pods were last listed
	Error   string    `json:"error,omitempty"`

	Found *profile.Found `json:"found,omitempty"` // how it was found
}

// Gate is the decision of the moment.
type Gate struct {
	Phase    gate.Phase     `json:"phase"`
	Since    time.Time      `json:"since"`
	Blockers []gate.Blocker `json:"blockers"`
}

// Handler is a runtime handler and who uses it.
type Handler struct {
	Name  string   `json:"name"`
	Entry string   `json:"entry,omitempty"` // of the stage; empty: not one of quiesce's
	Pods  []string `json:"pods"`
}

// Installer is a pod in flight.
type Installer struct {
	Pod   string    `json:"pod"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	Stuck bool      `json:"stuck,omitempty"`
}
