package main

import (
	"cmp"
	"fmt"
	"time"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/drain"
)

// DrainConfig is the table drain of the configuration.
type DrainConfig struct {
	Deadline      Duration     `toml:"deadline"`      // of a whole drain
	Grace         Duration     `toml:"grace"`         // of pods that do not say, or say 0
	Kubelet       string       `toml:"kubelet"`       // a unit that is stopped before pods are, when the runtime is stopped; empty: none
	StopsWith     []string     `toml:"stopsWith"`     // units whose stop ends the node's service, too; quiesce-drain.service must be part of them, and after them
	DuringUpgrade bool         `toml:"duringUpgrade"` // drain also when the runtime is stopped while a package manager or snapd changes packages
	Logind        bool         `toml:"logind"`        // begin when logind announces a shutdown, before systemd stops anything
	MountWait     Duration     `toml:"mountWait"`     // how long CSI and network volumes of a tier may take to be unmounted; 0: they are not waited for
	Tiers         []DrainTier  `toml:"tier"`          // more names
	Rules         []drain.Rule `toml:"rule"`          // the first that matches a pod places it
	Edges         []drain.Edge `toml:"edge"`          // pods that are stopped before others
	Hooks         []DrainHook  `toml:"hook"`          // run in this order
}

// DrainHook is a program that runs around a drain.
type DrainHook struct {
	When      drain.Moment    `toml:"when"`      // pre-drain, pre-tier, post-tier, post-drain or post-start
	Tier      string          `toml:"tier"`      // name or rank; empty: every tier
	Path      string          `toml:"path"`      // of the program
	Timeout   Duration        `toml:"timeout"`   // 0, or not set: 30s
	OnFailure drain.OnFailure `toml:"onFailure"` // ignore or abort; empty: ignore
}

func (h DrainHook) hook() drain.NodeHook {
	return drain.NodeHook{
		When: h.When, Tier: h.Tier, Path: h.Path,
		Timeout: cmp.Or(h.Timeout.Duration, 30*time.Second), OnFailure: cmp.Or(h.OnFailure, drain.Ignore),
	}
}

// DrainTier names a rank.
type DrainTier struct {
	Name string `toml:"name"` // for rules and annotations
	Rank int    `toml:"rank"` // low ones are stopped first
}

// drainDefaults are those of a profile. Where the kubelet is in a unit whose stop is the drain, there is none to be stopped.
func drainDefaults(on profile.Profile) DrainConfig {
	p := drain.DefaultPolicy()
	c := DrainConfig{Deadline: Duration{p.Deadline}, Grace: Duration{p.Grace}, Kubelet: "kubelet.service", StopsWith: on.StopsWith, Logind: true}
	if len(c.StopsWith) > 0 {
		c.Kubelet = ""
	}
	return c
}

func (c *DrainConfig) policy() drain.Policy {
	p := drain.Policy{Tiers: drain.DefaultTiers(), Rules: c.Rules, Grace: c.Grace.Duration, Deadline: c.Deadline.Duration}
	p.MountWait = c.MountWait.Duration
	p.Edges = append(drain.DefaultEdges(), c.Edges...)
	for _, t := range c.Tiers {
		p.Tiers = append(p.Tiers, drain.Tier{Name: t.Name, Rank: t.Rank})
	}
	for _, h := range c.Hooks {
		p.Hooks = append(p.Hooks, h.hook())
	}
	return p
}

func (c *DrainConfig) validate() error {
	if c.Grace.Duration < drain.Floor {
		return fmt.Errorf("drain.grace: must be at least %v", drain.Floor)
	}
	p := c.policy()
	if err := p.Validate(); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}
