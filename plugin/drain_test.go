package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/drain"
)

func TestSelection(t *testing.T) {
	for args, want := range map[string]string{
		"--all":              "all pods",
		"--handler spin":     "pods of handler spin",
		"--handler=":         "pods of the default handler",
		"--selector a/app=x": "pods a/app=x",
		"-l app=x":           "pods app=x",
		"--pod a/b":          "pod a/b",
		"":                   "",
		"--all --pod a/b":    "",
		"--pod b":            "",
		"--selector =":       "",
	} {
		got := ""
		c := &cli.Command{Name: "drain", Flags: selectionFlags(), Action: func(_ context.Context, c *cli.Command) error {
			s, err := selection(c, false)
			if err == nil {
				got = s.String()
			}
			return nil
		}}
		if err := c.Run(t.Context(), append([]string{"drain"}, strings.Fields(args)...)); err != nil {
			t.Error(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	began := time.Now()
	pod := func(name string, c drain.ContainerRecord) *drain.PodRecord {
		return &drain.PodRecord{Namespace: "a", Name: name, Containers: []*drain.ContainerRecord{&c}}
	}
	st := &drain.State{Began: began, Steps: []*drain.StepRecord{{Name: "workloads"}}, Pods: []*drain.PodRecord{
		pod("w", drain.ContainerRecord{Outcome: drain.Exited}), pod("x", drain.ContainerRecord{Signal: began}),
		pod("y\x1b[2J", drain.ContainerRecord{Signal: began}), pod("z", drain.ContainerRecord{HookBegan: began}),
	}}
	got := progressLine(st, began.Add(3*time.Second))
	if want := "[######..................] 1/4  3s  workloads  a/x a/y\uFFFD[2J and 1 more"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestDrainRow(t *testing.T) {
	if got := drainRow(control.Drain{}); got != nil {
		t.Errorf("without a drain: %v", got)
	}
	if got := strings.Join(drainRow(control.Drain{Phase: drain.Drained, Fence: true, Refused: 3}), " "); !strings.Contains(got, "fence up, 3") {
		t.Errorf("row %q", got)
	}
}

func TestDrainConfig(t *testing.T) {
	c := drainDefaults(profile.Profile{})
	if err := c.validate(); err != nil {
		t.Error(err)
	}
	c.Tiers, c.Rules = []DrainTier{{"databases", 15}}, []drain.Rule{{Tier: "databases", Grace: "90s"}}
	if err := c.validate(); err != nil {
		t.Error(err)
	}
	for _, r := range []drain.Rule{{Tier: "nowhere"}, {Grace: "0"}, {Role: "x"}, {QoS: "x"}} {
		c.Rules = []drain.Rule{r}
		if c.validate() == nil {
			t.Errorf("accepted %+v", r)
		}
	}
	c = drainDefaults(profile.Profile{})
	if c.Grace.Duration = 0; c.validate() == nil {
		t.Error("accepted a grace of 0")
	}
}
