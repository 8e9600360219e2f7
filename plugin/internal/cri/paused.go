package cri

import (
	"context"
	"errors"
	"fmt"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Task is what containerd runs for a container or sandbox.
type Task struct {
	Container string // id
	PID       int    // of its init; 0 once it has ended
	Paused    bool   // through the shim, or about to be
}

// ErrNoTasks says that the runtime does not tell its tasks: it is not containerd.
var ErrNoTasks = errors.New("the runtime does not tell its processes")

// Tasks lists what runs or is paused.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	r, err := tasksapi.NewTasksClient(c.conn).List(ctx, &tasksapi.ListTasksRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil, ErrNoTasks
	}
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	var out []Task
	for _, t := range r.GetTasks() {
		switch t.GetStatus() {
		case task.Status_RUNNING:
			out = append(out, Task{Container: t.GetID(), PID: int(t.GetPid())})
		case task.Status_PAUSED, task.Status_PAUSING:
			out = append(out, Task{Container: t.GetID(), PID: int(t.GetPid()), Paused: true})
		case task.Status_UNKNOWN, task.Status_CREATED, task.Status_STOPPED:
		}
	}
	return out, nil
}
