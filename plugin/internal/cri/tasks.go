package cri

import (
	"context"
	"fmt"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Process is the init process of a running container.
type Process struct {
	Container string // id
	PID       int
}

// Processes lists the containers that run, with the processes containerd has for them; none where the runtime
// is not containerd.
func (c *Client) Processes(ctx context.Context) ([]Process, error) {
	running, err := c.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	tasks, err := tasksapi.NewTasksClient(c.conn).List(ctx, &tasksapi.ListTasksRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	pids := map[string]int{}
	for _, t := range tasks.GetTasks() {
		if t.GetStatus() == task.Status_RUNNING {
			pids[t.GetID()] = int(t.GetPid())
		}
	}
	var out []Process
	for _, ct := range running.GetContainers() {
		if pid := pids[ct.GetId()]; pid > 0 {
			out = append(out, Process{Container: ct.GetId(), PID: pid})
		}
	}
	return out, nil
}

// Ended is how a container ended, as CRI tells it.
type Ended struct {
	Container string // id
	Pod, Name string
	Unknown   bool // the runtime has lost its state or its exit code: 255 with reason Unknown
	At        time.Time
}

// Ended lists those of the given containers that no longer run, according to CRI.
func (c *Client) Ended(ctx context.Context, ids map[string]bool) ([]Ended, error) {
	all, err := c.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var out []Ended
	for _, ct := range all.GetContainers() {
		if !ids[ct.GetId()] || ct.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		st, err := c.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: ct.GetId()})
		if err != nil {
			continue // removed meanwhile: by someone who knew how it ended
		}
		s := st.GetStatus()
		out = append(out, Ended{
			Container: ct.GetId(), Name: ct.GetMetadata().GetName(),
			Pod:     ct.GetLabels()[podNamespace] + "/" + ct.GetLabels()[podName],
			Unknown: s.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN || (s.GetExitCode() == 255 && s.GetReason() == "Unknown"),
			At:      time.Unix(0, s.GetFinishedAt()),
		})
	}
	return out, nil
}

// Sent asks the container's shim for its state: runc's answers when what was asked of it before is done (containerd
// cmd/containerd-shim-runc-v2/process/init.go: Kill and Status take one lock). It asks twice, since a stop call asks once
// itself before it signals. containerd gives a shim 2 s for an answer.
func (c *Client) Sent(ctx context.Context, id string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	for range 2 {
		_, err := tasksapi.NewTasksClient(c.conn).Get(ctx, &tasksapi.GetRequest{ContainerID: id})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		if err != nil {
			return fmt.Errorf("ask for task: %w", err)
		}
	}
	return nil
}
