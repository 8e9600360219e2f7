package main

import (
	"testing"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
)

func TestRuleWithPriority(t *testing.T) {
	c := drainDefaults(profile.Profile{})
	least := int32(1000)
	c.Rules = []drain.Rule{{Priority: &least, Tier: "network"}}
	if err := c.validate(); err != nil {
		t.Error(err)
	}
	pod := func(name string, priority *int32) *node.Pod {
		return &node.Pod{ID: name, Name: name, Namespace: "a", Ready: true, Spec: &node.Spec{Priority: priority}, Containers: []node.Container{{ID: name, State: node.Running}}}
	}
	low, high := int32(999), int32(1000)
	plan, err := drain.New(node.Snapshot{Pods: []*node.Pod{pod("low", &low), pod("high", &high), pod("unknown", nil)}}, c.policy(), drain.Selection{All: true})
	if err != nil || len(plan.Steps) != 2 || len(plan.Steps[1].Pods) != 1 || plan.Steps[1].Pods[0].Pod.Name != "high" {
		t.Errorf("%v, %+v", err, plan.Steps)
	}
}
