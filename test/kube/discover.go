package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// features is where Node Feature Discovery looks for the files of others.
const features = "/etc/kubernetes/node-feature-discovery/features.d"

// Discover puts labels on the node as Node Feature Discovery does from its local feature files: one line NAME or
// NAME=VALUE each, below feature.node.kubernetes.io/ unless the name has a prefix of its own. It goes on until ctx ends.
func (c *Cluster) Discover(ctx context.Context) {
	old := map[string]string{}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		if now, err := c.features(ctx); err == nil && c.label(ctx, old, now) == nil {
			old = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// features reads the files.
func (c *Cluster) features(ctx context.Context) (map[string]string, error) {
	out, err := c.Exec(ctx, "sh", "-c", "cat "+features+"/* 2>/dev/null || true")
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			value = "true"
		}
		if !strings.Contains(name, "/") {
			name = "feature.node.kubernetes.io/" + name
		}
		labels[name] = value
	}
	return labels, nil
}

// label brings the node's labels from old to now.
func (c *Cluster) label(ctx context.Context, old, now map[string]string) error {
	change := map[string]any{}
	for name := range old {
		if _, ok := now[name]; !ok {
			change[name] = nil
		}
	}
	for name, value := range now {
		if old[name] != value || value == "" {
			change[name] = value
		}
	}
	if len(change) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": change}})
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	return c.Patch(ctx, "/api/v1/nodes/"+NodeName, string(patch))
}
