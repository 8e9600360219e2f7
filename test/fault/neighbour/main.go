// Command neighbour is an NRI plugin that takes its time in every callback: neighbour TIME.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type slow struct{ takes time.Duration }

func (s slow) wait(ctx context.Context) error {
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s slow) Synchronize(ctx context.Context, _ []*api.PodSandbox, _ []*api.Container) ([]*api.ContainerUpdate, error) { //nolint:unparam // the stub looks for this signature
	return nil, s.wait(ctx)
}

func (s slow) RunPodSandbox(ctx context.Context, _ *api.PodSandbox) error {
	return s.wait(ctx)
}

func (s slow) CreateContainer(ctx context.Context, _ *api.PodSandbox, _ *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) { //nolint:unparam // the stub looks for this signature
	return nil, nil, s.wait(ctx)
}

func (s slow) StopContainer(ctx context.Context, _ *api.PodSandbox, _ *api.Container) ([]*api.ContainerUpdate, error) { //nolint:unparam // the stub looks for this signature
	return nil, s.wait(ctx)
}

func run() error {
	takes, err := time.ParseDuration(os.Args[1])
	if err != nil {
		return err
	}
	s, err := stub.New(slow{takes}, stub.WithPluginName("slow"), stub.WithPluginIdx("00"))
	if err != nil {
		return err
	}
	return s.Run(context.Background())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "neighbour:", err)
		os.Exit(1)
	}
}
