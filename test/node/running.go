package node

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pace of the pod driver, like a kubelet's but faster.
const (
	retryEvery  = 500 * time.Millisecond // a refused create or start, containerd being away
	statusEvery = 100 * time.Millisecond
	stopDelay   = 200 * time.Millisecond // between a pod's last exit and the stop of its sandbox
)

// RunningPod is a pod of a node. Its methods go on through restarts of containerd, as a kubelet does: a call that
// fails is made again until the context ends.
type RunningPod struct {
	Pod       Pod    // with defaults filled in
	SandboxID string // CRI id

	node   *Node
	cri    runtimeapi.RuntimeServiceClient
	config *runtimeapi.PodSandboxConfig

	mu  sync.Mutex
	ids map[string]string // container name → CRI id
}

// BeginPod creates the sandbox of a pod; RunningPod.Start does the rest.
func (n *Node) BeginPod(ctx context.Context, pod Pod) (*RunningPod, error) {
	cri, err := n.CRI(ctx)
	if err != nil {
		return nil, err
	}
	p := &RunningPod{Pod: pod.withDefaults(), node: n, cri: cri, ids: map[string]string{}}
	err = p.retry(ctx, func() error { return p.ensureSandbox(ctx) })
	if err != nil {
		return nil, fmt.Errorf("start pod %s: %w", p.Pod.Name, err)
	}
	return p, nil
}

// StartPod creates a pod, runs its init containers to their end and starts its containers.
func (n *Node) StartPod(ctx context.Context, pod Pod) (*RunningPod, error) {
	p, err := n.BeginPod(ctx, pod)
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// RunPod starts a pod, waits until all its containers have ended and stops its sandbox, without removing it.
func (n *Node) RunPod(ctx context.Context, pod Pod) (*RunningPod, error) {
	p, err := n.StartPod(ctx, pod)
	if err != nil {
		return p, err
	}
	return p, p.Wait(ctx)
}

// ensureSandbox adopts a ready sandbox of the pod, which an interrupted attempt has left, or makes the next attempt.
func (p *RunningPod) ensureSandbox(ctx context.Context) error {
	list, err := p.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": p.Pod.UID}},
	})
	if err != nil {
		return err
	}
	var attempt uint32
	for _, s := range list.GetItems() {
		attempt = max(attempt, s.GetMetadata().GetAttempt()+1)
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			p.SandboxID = s.GetId()
			p.config = p.Pod.sandboxConfig(s.GetMetadata().GetAttempt(), p.node.cfg.SystemdCgroup, time.Now())
			return nil
		}
	}
	config := p.Pod.sandboxConfig(attempt, p.node.cfg.SystemdCgroup, time.Now())
	answer, err := p.cri.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: p.Pod.Handler})
	if err != nil {
		return err
	}
	p.SandboxID, p.config = answer.GetPodSandboxId(), config
	return nil
}

// Start runs the init containers one after the other, each to exit code 0, then starts the containers.
func (p *RunningPod) Start(ctx context.Context) error {
	for _, c := range p.Pod.InitContainers {
		if err := p.startContainer(ctx, c); err != nil {
			return err
		}
		s, err := p.waitContainer(ctx, c.Name)
		if err != nil {
			return err
		}
		if s.GetExitCode() != 0 {
			return fmt.Errorf("run init container %s of %s: exit code %d, reason %s", c.Name, p.Pod.Name, s.GetExitCode(), s.GetReason())
		}
	}
	for _, c := range p.Pod.Containers {
		if err := p.startContainer(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// startContainer brings a container to the state running, or exited if it was quick.
func (p *RunningPod) startContainer(ctx context.Context, c Container) error {
	message := path.Join("/var/lib/kubelet/pods", p.Pod.UID, "containers", c.Name, newUID()[:8])
	config, err := p.Pod.containerConfig(c, message)
	if err == nil {
		err = p.node.WriteFile(message, nil, 0o666)
	}
	if err == nil {
		// A kubelet makes the directory of the log.
		err = p.node.WriteFile(path.Join(p.Pod.logDir(), config.GetLogPath()), nil, 0o640)
	}
	if err == nil {
		err = p.retry(ctx, func() error { return p.ensureContainer(ctx, config) })
	}
	if err != nil {
		return fmt.Errorf("start container %s of %s: %w", c.Name, p.Pod.Name, err)
	}
	return nil
}

// ensureContainer creates and starts a container as far as an earlier try has not.
func (p *RunningPod) ensureContainer(ctx context.Context, config *runtimeapi.ContainerConfig) error {
	name := config.GetMetadata().GetName()
	found, err := p.find(ctx, name)
	if err != nil {
		return err
	}
	id := found.GetId()
	if found == nil {
		answer, err := p.cri.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
			PodSandboxId: p.SandboxID, Config: config, SandboxConfig: p.config,
		})
		if err != nil {
			return err
		}
		id = answer.GetContainerId()
	}
	p.mu.Lock()
	p.ids[name] = id
	p.mu.Unlock()
	if found != nil && found.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil
	}
	_, err = p.cri.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

// find looks a container up by name; nil if there is none.
func (p *RunningPod) find(ctx context.Context, name string) (*runtimeapi.Container, error) {
	list, err := p.cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		PodSandboxId: p.SandboxID, LabelSelector: map[string]string{"io.kubernetes.container.name": name},
	}})
	if err != nil || len(list.GetContainers()) == 0 {
		return nil, err
	}
	return list.GetContainers()[0], nil
}

// retry calls f until it succeeds or ctx ends; the error then holds f's last one.
func (p *RunningPod) retry(ctx context.Context, f func() error) error {
	var last error
	err := poll(ctx, retryEvery, func() (bool, error) {
		last = f()
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	return errors.Join(err, last)
}

// gone reports whether an error says that what should be stopped or removed is not there.
func gone(err error) bool {
	return status.Code(err) == codes.NotFound || err != nil && strings.Contains(err.Error(), "not found")
}
