package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"quiesce/test/lab"
)

// Report is what a reader of `quiesce report --output json` relies on.
type Report struct {
	Phase, Trigger  string
	Began, Finished time.Time
	Deadline        time.Time
	Steps           []struct {
		Name         string
		Began, Ended time.Time
	}
	Pods  []ReportPod
	Notes []string
}

// ReportPod is a pod of a Report.
type ReportPod struct {
	Namespace, Name string
	Step            int
	Asked           time.Duration `json:"grace_asked"`
	Given           time.Duration `json:"grace_given"`
	Stopped         time.Time     `json:"sandbox_stopped"`
	Began           time.Time
	Containers      []struct {
		ID, Name, Outcome string
		Signal, Kill      time.Time
		Exit              time.Time
		Code              *int
		HookError         string `json:"hook_error"`
	}
}

// ReadReport asks for the report of the last drain.
func ReadReport(ctx context.Context, l *lab.Lab) (r Report, err error) {
	out, err := l.Quiesce(ctx, "report", "--output", "json")
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return r, fmt.Errorf("read report: %w", err)
	}
	return r, nil
}

// outcomes maps pod/container to the outcome.
func (r Report) outcomes() map[string]string {
	out := map[string]string{}
	for _, p := range r.Pods {
		for _, c := range p.Containers {
			out[p.Name+"/"+c.Name] = c.Outcome
		}
	}
	return out
}

// InOrder is an error unless the containers of each of the pods named got their signals after those of the pod before
// had ended.
func (r Report) InOrder(pods ...string) error {
	var last time.Time
	before := ""
	for _, name := range pods {
		found, end := false, last
		for _, p := range r.Pods {
			for _, c := range p.Containers {
				if p.Name != name {
					continue
				}
				found = true
				if c.Signal.IsZero() || c.Exit.IsZero() || c.Signal.Before(last) {
					return fmt.Errorf("%s was signalled at %v and ended at %v; %q ended at %v", name, c.Signal, c.Exit, before, last)
				}
				if c.Exit.After(end) {
					end = c.Exit
				}
			}
		}
		if !found {
			return fmt.Errorf("the report lacks %s", name)
		}
		last, before = end, name
	}
	return nil
}
