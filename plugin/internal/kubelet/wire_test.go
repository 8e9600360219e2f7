package kubelet

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"quiesce/plugin/internal/node"
)

// text and number are fields of a message.
func text(field protowire.Number, parts ...string) string {
	var all string
	for _, p := range parts {
		all += p
	}
	return string(protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), all))
}

func number(field protowire.Number, n uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n))
}

// example is a pod of a Job that mounts the host's root.
func example() []byte {
	mounts := text(containerMounts, text(mountVolume, "root"), text(3, "/host")) + text(containerMounts, text(mountVolume, "log"), number(mountReadOnly, 1))
	return []byte(text(podMeta, text(1, "name"), text(metaUID, "uid"), text(metaDeleted, number(1, 5)),
		text(metaOwners, text(ownerKind, "Other")), text(metaOwners, text(ownerKind, "Job"), number(ownerController, 1))) +
		text(podSpec,
			text(specContainers, text(containerName, "main"), text(containerImage, "image:1"), mounts),
			text(specInit, text(containerName, "once"), text(containerRestart, "")),
			text(specInit, text(containerName, "proxy"), text(containerRestart, "Always")),
			text(specVolumes, text(volumeName, "root"), text(volumeSource, text(sourceHostPath, text(hostDir, "/")))),
			text(specVolumes, text(volumeName, "log"), text(volumeSource, text(sourceHostPath, text(hostDir, "/var/log")))),
			text(specVolumes, text(volumeName, "data"), text(volumeSource, text(10, text(1, "claim")))),
			number(specPriority, 2000001000), number(4, 30)) + text(3, "status"))
}

func want(deleting bool) *node.Spec {
	return &node.Spec{
		Deleting: deleting, Priority: new(int32(2000001000)), Owner: "Job", Sidecars: []string{"proxy"}, Opaque: true,
		Containers: []node.Container{
			{Name: "main", Images: []string{"image:1"}, Mounts: []node.Mount{{Host: "/", Writable: true}, {Host: "/var/log"}}},
			{Name: "once"},
			{Name: "proxy"},
		},
	}
}

func TestParse(t *testing.T) {
	uid, got, err := parse(example())
	if err != nil || uid != "uid" {
		t.Fatalf("%q, %v", uid, err)
	}
	if d := cmp.Diff(want(true), got); d != "" {
		t.Error(d)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(example())
	f.Fuzz(func(t *testing.T, b []byte) {
		if uid, s, err := parse(b); err == nil && (uid == "" || s == nil) {
			t.Errorf("%q %v", uid, s)
		}
	})
}

type server struct {
	podsapi.UnimplementedPodsServer
	pods [][]byte
}

func (s server) ListPods(context.Context, *podsapi.ListPodsRequest) (*podsapi.ListPodsResponse, error) {
	return &podsapi.ListPodsResponse{Pods: s.pods}, nil
}

// TestGoneKubelet: what it said last is still known, to another process too; that a pod is deleted is not.
func TestGoneKubelet(t *testing.T) {
	dir, err := os.MkdirTemp("", "q")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, file := filepath.Join(dir, "s"), filepath.Join(dir, "pods.json")
	c := New(socket, file)
	if s := c.Specs(t.Context()); s != nil {
		t.Errorf("without a kubelet: %v", s)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	podsapi.RegisterPodsServer(g, server{pods: [][]byte{example()}})
	go func() { _ = g.Serve(l) }()
	got := c.Specs(t.Context())
	g.Stop()
	if d := cmp.Diff(map[string]*node.Spec{"uid": want(true)}, got); d != "" {
		t.Error(d)
	}
	for _, c := range []*Client{c, New(socket, file)} {
		if d := cmp.Diff(map[string]*node.Spec{"uid": want(false)}, c.Specs(t.Context())); d != "" {
			t.Error(d)
		}
	}
}
