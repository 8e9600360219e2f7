package mounts

import (
	"context"
	"errors"
	"slices"
	"testing"

	"quiesce/plugin/internal/drain"
)

func TestHost(t *testing.T) {
	h := &Host{}
	all, err := h.Mounts(t.Context())
	if err != nil || !slices.ContainsFunc(all, func(m drain.Mount) bool { return m.Point == "/proc" && m.Type == "proc" && m.Device != "" }) {
		t.Errorf("%v, %d mounts without /proc", err, len(all))
	}
}

// TestHungRead: nobody waits longer than he wants to, and only one read is on.
func TestHungRead(t *testing.T) {
	h := &Host{now: make(chan answer, 1)}
	hung := h.now
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Mounts(ctx); !errors.Is(err, context.Canceled) || h.now != hung {
		t.Errorf("%v", err)
	}
	hung <- answer{all: []drain.Mount{{Point: "/late"}}}
	if all, err := h.Mounts(t.Context()); err != nil || len(all) != 1 || h.now != nil {
		t.Errorf("%v, %v", all, err)
	}
}
