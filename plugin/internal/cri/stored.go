package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	sandboxapi "github.com/containerd/containerd/api/services/sandbox/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/plugin/internal/node"
)

// leaked is the age from which a sandbox that containerd knows and CRI does not is taken for one that a failed
// RunPodSandbox left behind (containerd#13609), not for one being made. The kubelet gives up after 4 minutes.
const leaked = 5 * time.Minute

// stored lists the sandboxes in containerd's own metadata: it has them before the network is set up, CRI only
// after the pause container runs (containerd internal/cri/server/sandbox_run.go).
func (c *Client) stored(ctx context.Context) ([]*node.Pod, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	r, err := sandboxapi.NewStoreClient(c.conn).List(ctx, &sandboxapi.StoreListRequest{})
	if status.Code(err) == codes.Unimplemented {
		return c.sandboxContainers(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("list containerd's sandboxes: %w", err)
	}
	if len(r.GetList()) == 0 { // none, or containerd 1.7, whose CRI does not keep them there
		return c.sandboxContainers(ctx)
	}
	var pods []*node.Pod
	for _, s := range r.GetList() {
		if p := creating(s.GetSandboxID(), s.GetCreatedAt(), s.GetExtensions()["metadata"].GetValue()); p != nil {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// sandboxContainers lists the sandboxes as containerd 1.7 keeps them: as containers of their own kind
// (containerd 1.7 pkg/cri/server/sandbox_run.go).
func (c *Client) sandboxContainers(ctx context.Context) ([]*node.Pod, error) {
	const kind, ext = `labels."io.cri-containerd.kind"==sandbox`, "io.cri-containerd.sandbox.metadata"
	r, err := containersapi.NewContainersClient(c.conn).List(ctx, &containersapi.ListContainersRequest{Filters: []string{kind}})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list containerd's sandboxes: %w", err)
	}
	var pods []*node.Pod
	for _, s := range r.GetContainers() {
		if p := creating(s.GetID(), s.GetCreatedAt(), s.GetExtensions()[ext].GetValue()); p != nil {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// creating is a pod that CRI may not know yet, or nil if it is too old for that.
func creating(id string, at *timestamppb.Timestamp, extension []byte) *node.Pod {
	created := at.AsTime()
	if !node.Younger(created, time.Now(), leaked) {
		return nil
	}
	var ext struct {
		Metadata struct {
			RuntimeHandler string
			Config         *runtimeapi.PodSandboxConfig
		}
	}
	_ = json.Unmarshal(extension, &ext) // of another form: a nameless pod, which still counts as being made
	cfg := ext.Metadata.Config
	return &node.Pod{
		ID: id, Namespace: cfg.GetMetadata().GetNamespace(), Name: cfg.GetMetadata().GetName(), UID: cfg.GetMetadata().GetUid(),
		Handler: ext.Metadata.RuntimeHandler, Labels: cfg.GetLabels(), Created: created, Ready: true, Creating: true,
		Annotations: cfg.GetAnnotations(),
	}
}
