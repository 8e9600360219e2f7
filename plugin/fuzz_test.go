package main

import (
	"os"
	"path/filepath"
	"testing"

	"quiesce/manifests"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
)

// FuzzConfig reads anything as the configuration. What is taken makes a plan with every pod in it.
func FuzzConfig(f *testing.F) {
	f.Add(manifests.Config("containerd.service"))
	f.Add([]byte("[drain]\ndeadline = '1m'\n[[drain.tier]]\nname = 'db'\nrank = 15\n[[drain.rule]]\nselector = 'app=a'\ntier = 'db'\ngrace = '90'\n[[drain.edge]]\nfirst = 'app=a'\nthen = '*/app=b'\n"))
	f.Add([]byte("[[drain.rule]]\nskip = true\nqos = 'guaranteed'\nstatic = false\nhostNetwork = true\nowner = 'Job'\nhandler = ''\n"))
	f.Add([]byte("quietPeriod = '-1s'\n"))
	f.Add([]byte("quietPeriod=-1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := readConfig(file)
		if err != nil {
			if n := len(err.Error()); n > len(text)+4000 {
				t.Errorf("an error of %d bytes", n)
			}
			return
		}
		if cfg.VerifyTimeout.Duration <= 0 || cfg.QuietPeriod.Duration < 0 || cfg.Drain.Deadline.Duration <= 0 {
			t.Errorf("taken: %+v", cfg)
		}
		var pods []*node.Pod
		for _, name := range []string{"a", "b", "c"} {
			c := node.Container{ID: name, Name: "main", State: node.Running, Annotations: map[string]string{}}
			pods = append(pods, &node.Pod{ID: name, Namespace: "x", Name: name, Ready: true, Labels: map[string]string{"app": name}, Containers: []node.Container{c}})
		}
		plan, _ := drain.New(node.Snapshot{Pods: pods}, cfg.Drain.policy(), drain.Selection{All: true})
		if plan.Pods()+len(plan.Skipped) != len(pods) {
			t.Errorf("the plan has %d pods, %d are left alone", plan.Pods(), len(plan.Skipped))
		}
	})
}
