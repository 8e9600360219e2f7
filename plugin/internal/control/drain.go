package control

import (
	"context"
	"net/http"
	"time"

	"quiesce/plugin/internal/drain"
)

// Drain is the drain as the daemon sees it.
type Drain struct {
	Phase   drain.Phase `json:"phase,omitempty"` // empty: there never was one
	What    string      `json:"what,omitempty"`
	Tier    string      `json:"tier,omitempty"`
	Began   time.Time   `json:"began,omitzero"`
	Fence   bool        `json:"fence"`             // containers of drained pods are refused
	Refused int64       `json:"refused,omitempty"` // since the daemon started
	Error   string      `json:"error,omitempty"`

	Took     time.Duration                    `json:"took_ns,omitempty"`  // until it was done, or until now
	Outcomes map[string]map[drain.Outcome]int `json:"outcomes,omitempty"` // of containers, by tier
}

// Drain makes the daemon read the drain's state: its fence follows from it.
func (c *Client) Drain(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "drain", &Request{}, nil)
}
