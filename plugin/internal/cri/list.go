package cri

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/plugin/internal/node"
)

const (
	podName      = "io.kubernetes.pod.name"
	podNamespace = "io.kubernetes.pod.namespace"
)

// List gives all pods with their containers, those that are being made included.
func (c *Client) List(ctx context.Context) ([]*node.Pod, error) {
	sandboxes, err := c.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	creating, err := c.stored(ctx) // after CRI's list, so that a pod is in one of them however fast it is made
	if err != nil {
		return nil, err
	}
	containers, err := c.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	byID := map[string]*node.Pod{}
	var pods []*node.Pod
	for _, s := range sandboxes.GetItems() {
		p := pod(s)
		byID[p.ID] = p
		pods = append(pods, p)
	}
	for _, p := range creating {
		if byID[p.ID] == nil {
			byID[p.ID] = p
			pods = append(pods, p)
		}
	}
	c.known.keep(ids(containers.GetContainers()))
	c.nets.keep(ids(sandboxes.GetItems()))
	known, err := together(containers.GetContainers(), func(ct *runtimeapi.Container) (node.Container, error) { return c.container(ctx, ct) })
	if err != nil {
		return nil, err
	}
	for i, ct := range containers.GetContainers() {
		if p := byID[ct.GetPodSandboxId()]; p != nil { // else its pod began after the sandboxes were listed
			p.Containers = append(p.Containers, known[i])
		}
	}
	if c.Specs != nil {
		specs := c.Specs(ctx)
		for _, p := range pods {
			p.Spec = specs[p.UID]
		}
	}
	return pods, nil
}

// questions is how many are asked at the same time.
const questions = 8

// together asks something of each, and gives the answers in order.
func together[T, A any](all []T, ask func(T) (A, error)) ([]A, error) {
	answers := make([]A, len(all))
	var g errgroup.Group
	g.SetLimit(questions)
	for i, e := range all {
		g.Go(func() (err error) {
			answers[i], err = ask(e)
			return err
		})
	}
	return answers, g.Wait()
}

func pod(s *runtimeapi.PodSandbox) *node.Pod {
	return &node.Pod{
		ID: s.GetId(), Namespace: s.GetMetadata().GetNamespace(), Name: s.GetMetadata().GetName(), UID: s.GetMetadata().GetUid(),
		Handler: s.GetRuntimeHandler(), Labels: s.GetLabels(), Created: time.Unix(0, s.GetCreatedAt()),
		Ready: s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY, Annotations: s.GetAnnotations(),
	}
}

// container adds the mounts, which the list lacks; they never change, so each container is asked for once.
func (c *Client) container(ctx context.Context, ct *runtimeapi.Container) (node.Container, error) {
	nc := node.Container{
		ID: ct.GetId(), Name: ct.GetMetadata().GetName(), State: states[ct.GetState()], Created: time.Unix(0, ct.GetCreatedAt()),
		Annotations: ct.GetAnnotations(),
		Images:      []string{ct.GetImage().GetImage(), ct.GetImage().GetUserSpecifiedImage(), ct.GetImageRef()},
	}
	d, ok := c.known.get(nc.ID)
	if !ok || (nc.State == node.Exited && d.finished.IsZero()) {
		st, err := c.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: nc.ID})
		if status.Code(err) == codes.NotFound {
			nc.State = node.Exited
			return nc, nil // removed meanwhile
		}
		if err != nil {
			return nc, fmt.Errorf("ask status of container %s: %w", nc.Name, err)
		}
		d = details(st.GetStatus())
		c.known.put(nc.ID, d)
	}
	nc.Mounts, nc.Finished = d.mounts, d.finished
	nc.Images = append(nc.Images, d.image)
	return nc, nil
}

var states = map[runtimeapi.ContainerState]node.ContainerState{
	runtimeapi.ContainerState_CONTAINER_CREATED: node.Created,
	runtimeapi.ContainerState_CONTAINER_RUNNING: node.Running,
	runtimeapi.ContainerState_CONTAINER_EXITED:  node.Exited,
	runtimeapi.ContainerState_CONTAINER_UNKNOWN: node.Unknown,
}

type containerDetails struct {
	mounts   []node.Mount
	image    string
	stop     string // its stop signal; empty if CRI does not tell
	finished time.Time
}

func details(st *runtimeapi.ContainerStatus) containerDetails {
	d := containerDetails{image: st.GetImage().GetImage(), stop: stopSignal(st)}
	for _, m := range st.GetMounts() {
		d.mounts = append(d.mounts, node.Mount{Host: m.GetHostPath(), Writable: !m.GetReadonly()})
	}
	if st.GetFinishedAt() > 0 {
		d.finished = time.Unix(0, st.GetFinishedAt())
	}
	return d
}
