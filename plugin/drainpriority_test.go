package main

import (
	"maps"
	"testing"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/podsapi"
	"quiesce/plugin/stage"
)

// TestPrioritiesAreKept: a kubelet that is down, or has no pods API, takes nothing away.
func TestPrioritiesAreKept(t *testing.T) {
	dir := t.TempDir()
	if err := stage.Create(dir); err != nil {
		t.Fatal(err)
	}
	store, err := drain.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	socket := podsapi.Socket(t.TempDir())
	if got := priorities(t.Context(), store, socket); len(got) != 0 {
		t.Errorf("got %v of nobody", got)
	}
	want := map[string]int32{"u-a": 2_000_001_000, "u-b": -1}
	if err := store.SavePriorities(want); err != nil {
		t.Fatal(err)
	}
	if got := priorities(t.Context(), store, socket); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRuleWithPriority(t *testing.T) {
	c := drainDefaults()
	if c.prioritySocket() != "" {
		t.Error("the kubelet is asked for nobody")
	}
	least := int32(1000)
	c.Rules = []drain.Rule{{Priority: &least, Tier: "network"}}
	if err := c.validate(); err != nil || c.prioritySocket() != "/var/lib/kubelet/pods-api/pods-api.sock" {
		t.Errorf("%v, socket %q", err, c.prioritySocket())
	}
	pod := func(name string, priority *int32) *node.Pod {
		return &node.Pod{ID: name, Name: name, Namespace: "a", Ready: true, Priority: priority, Containers: []node.Container{{ID: name, State: node.Running}}}
	}
	low, high := int32(999), int32(1000)
	plan, err := drain.New(node.Snapshot{Pods: []*node.Pod{pod("low", &low), pod("high", &high), pod("unknown", nil)}}, c.policy(), drain.Selection{All: true})
	if err != nil || len(plan.Steps) != 2 || len(plan.Steps[1].Pods) != 1 || plan.Steps[1].Pods[0].Pod.Name != "high" {
		t.Errorf("%v, %+v", err, plan.Steps)
	}
}
