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

func (s slow) wait(ctx context.Context) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
	}
}

func (s slow) Synchronize(ctx context.Context, _ []*api.PodSandbox, _ []*api.Container) ([]*api.ContainerUpdate, error) {
	s.wait(ctx)
	return nil, nil
}

func (s slow) RunPodSandbox(ctx context.Context, _ *api.PodSandbox) error {
	s.wait(ctx)
	return nil
}

func (s slow) CreateContainer(ctx context.Context, _ *api.PodSandbox, _ *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	s.wait(ctx)
	return nil, nil, nil
}

func (s slow) StopContainer(ctx context.Context, _ *api.PodSandbox, _ *api.Container) ([]*api.ContainerUpdate, error) {
	s.wait(ctx)
	return nil, nil
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
