package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Outcome is what became of a Job, as the API server tells it.
type Outcome struct {
	Pods      int   `json:"pods"`       // that the Job made
	Failed    int   `json:"failed"`     // as the Job counts them
	Succeeded int   `json:"succeeded"`  // as the Job counts them
	ExitCodes []int `json:"exit_codes"` // of the pods' main containers, oldest pod first

	Reasons []string `json:"-"`
}

// Clean tells whether one pod did it all.
func (o Outcome) Clean() bool {
	return o.Pods == 1 && o.Failed == 0 && o.Succeeded == 1 && len(o.ExitCodes) == 1 && o.ExitCodes[0] == 0 && o.Reasons[0] == "Completed"
}

// String is for people.
func (o Outcome) String() string {
	var ends []string
	for i, c := range o.ExitCodes {
		ends = append(ends, fmt.Sprintf("%d %s", c, o.Reasons[i]))
	}
	return fmt.Sprintf("%d pod(s), %d failed, %d succeeded: %s", o.Pods, o.Failed, o.Succeeded, strings.Join(ends, ", "))
}

// Outcome waits until a Job is over and tells what became of it.
func (c *Cluster) Outcome(ctx context.Context, namespace, job string) (o Outcome, err error) {
	j, err := c.WaitJob(ctx, namespace, job)
	if err != nil {
		return o, err
	}
	pods, err := c.JobPods(ctx, namespace, job)
	if err != nil {
		return o, err
	}
	o = Outcome{Pods: len(pods), Failed: j.Status.Failed, Succeeded: j.Status.Succeeded, ExitCodes: []int{}}
	for _, p := range pods {
		for _, end := range p.Ends() {
			o.ExitCodes, o.Reasons = append(o.ExitCodes, end.ExitCode), append(o.Reasons, end.Reason)
		}
	}
	return o, nil
}

// Keep writes what kubectl says of the cluster's Jobs, pods and node into a directory, one file each.
func (c *Cluster) Keep(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	var errs []error
	for _, kind := range []string{"jobs", "pods", "nodes", "runtimeclasses", "events"} {
		out, err := c.Kubectl(ctx, "get", kind, "--all-namespaces", "--output", "json")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, kind+".json"), []byte(out), 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
