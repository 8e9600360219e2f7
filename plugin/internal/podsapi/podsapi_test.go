package podsapi

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

type kubelet struct {
	podsv1alpha1.UnimplementedPodsServer
	pods [][]byte
}

func (k kubelet) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	return &podsv1alpha1.ListPodsResponse{Pods: k.pods}, nil
}

func bytesField(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

// pod is a v1.Pod with more fields than are read.
func pod(uid string, priority int32, deleting bool) []byte {
	meta := bytesField(bytesField(nil, 1, []byte("name")), metaUID, []byte(uid))
	if deleting {
		meta = bytesField(meta, metaDeleted, nil)
	}
	spec := bytesField(nil, 2, []byte("a container"))
	spec = protowire.AppendVarint(protowire.AppendTag(spec, specPriority, protowire.VarintType), uint64(int64(priority)))
	return bytesField(bytesField(bytesField(nil, podMetadata, meta), podSpec, spec), 3, []byte("status"))
}

func serve(t *testing.T, pods ...[]byte) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pods")
	if err != nil {
		t.Fatal(err)
	}
	socket := Socket(dir)
	if err := os.Mkdir(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	podsv1alpha1.RegisterPodsServer(s, kubelet{pods: pods})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := errors.Join(<-done, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return socket
}

func TestList(t *testing.T) {
	got, err := List(t.Context(), serve(t, pod("a", 2_000_001_000, false), pod("b", -5, true), bytesField(nil, podMetadata, nil)))
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if a, b, c := got[0], got[1], got[2]; a.UID != "a" || *a.Priority != 2_000_001_000 || a.Deleting || *b.Priority != -5 || !b.Deleting || c.Priority != nil {
		t.Errorf("got %+v", got)
	}
	if _, err := List(t.Context(), serve(t, []byte{0xff})); err == nil {
		t.Error("took what is no pod")
	}
	if _, err := List(t.Context(), Socket(t.TempDir())); !errors.Is(err, ErrAbsent) {
		t.Errorf("without a kubelet: %v", err)
	}
}
