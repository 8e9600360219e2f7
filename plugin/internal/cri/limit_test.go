package cri

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// hung is a runtime that answers nothing but stops, and those late.
type hung struct {
	runtimeapi.UnimplementedRuntimeServiceServer
}

func (hung) ListContainers(ctx context.Context, _ *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

const late = 300 * time.Millisecond

func (hung) StopContainer(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	<-time.After(late)
	return &runtimeapi.StopContainerResponse{}, nil
}

// TestARuntimeThatHangs holds up nobody who sets no limit; a stop takes as long as it takes.
func TestARuntimeThatHangs(t *testing.T) {
	dir, err := os.MkdirTemp("", "cri") // the path of a socket is short
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	check(t, err)
	s := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(s, hung{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := newLimited(socket, late/3)
	check(t, err)
	if _, err := c.Processes(context.Background()); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want an end", err)
	}
	check(t, c.StopContainer(context.Background(), "x", time.Minute))
	check(t, c.Close())
	s.Stop()
	check(t, <-served)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
