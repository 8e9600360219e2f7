package cri

import (
	"context"
	"fmt"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/process"
)

const (
	runcShim = "io.containerd.runc.v2"
	// imageStop is the label with the image's stop signal (containerd client.imageConfigStopSignal).
	imageStop = "io.containerd.image.config.stop-signal"
)

// Reach tells how the running containers are reached without the runtime; nothing where it is not containerd.
func (c *Client) Reach(ctx context.Context) (map[string]drain.Reach, error) {
	ps, err := c.Processes(ctx)
	if err != nil {
		return nil, err
	}
	nctx := metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	all, err := containersapi.NewContainersClient(c.conn).List(nctx, &containersapi.ListContainersRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list containerd's containers: %w", err)
	}
	info := map[string]*containersapi.Container{}
	for _, ct := range all.GetContainers() {
		info[ct.GetID()] = ct
	}
	out := map[string]drain.Reach{}
	for _, p := range ps {
		ct := info[p.Container]
		r := drain.Reach{PID: p.PID, Start: process.Start(p.PID), Runc: ct.GetRuntime().GetName() == runcShim, Stop: ct.GetLabels()[imageStop]}
		if s := c.stopSignal(ctx, p.Container); s != "" {
			r.Stop = s
		}
		out[p.Container] = r
	}
	return out, nil
}

// stopSignal is known of listed containers.
func (c *Client) stopSignal(ctx context.Context, id string) string {
	if d, ok := c.known.get(id); ok {
		return d.stop
	}
	st, err := c.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return ""
	}
	return stopSignal(st.GetStatus())
}
