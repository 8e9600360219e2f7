package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
)

// Event is a line that a victim wrote.
type Event struct {
	At   time.Time
	What string
	Err  string
}

// Events reads what a victim wrote.
func Events(l *lab.Lab, log string) ([]Event, error) {
	b, err := l.ReadFile(path.Join(Evidence, log))
	if err != nil {
		return nil, err
	}
	var out []Event
	for line := range strings.Lines(string(b)) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("read evidence of %s: %w", log, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// Signals are the signals that a victim got, in order.
func Signals(l *lab.Lab, log string) (got []Event, err error) {
	all, err := Events(l, log)
	for _, e := range all {
		if slices.Contains([]string{"terminated", "interrupt", "user defined signal 1", "hangup", "quit"}, e.What) {
			got = append(got, e)
		}
	}
	return got, err
}

// Started waits until the victims have installed their signal handlers.
func Started(ctx context.Context, l *lab.Lab, logs ...string) error {
	for _, log := range logs {
		err := l.Until(ctx, log+" has started", func(context.Context) (bool, error) {
			ev, err := Events(l, log)
			return err == nil && len(ev) > 0, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Running lists the containers that run.
func Running(ctx context.Context, l *lab.Lab) ([]*runtimeapi.Container, error) {
	return containers(ctx, l, &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
}

func containers(ctx context.Context, l *lab.Lab, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	cri, err := l.CRI(ctx)
	if err != nil {
		return nil, err
	}
	list, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return list.GetContainers(), nil
}

func podName(ct *runtimeapi.Container) string { return ct.GetLabels()["io.kubernetes.pod.name"] }

// names are the names of pods.
func names(pods []Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}
