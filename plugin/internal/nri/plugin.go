package nri

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"

	"quiesce/plugin/internal/node"
)

// Sink takes what NRI tells; its methods return at once.
type Sink interface {
	Apply(node.Event)
	Synchronize(pods []*node.Pod, at time.Time)
}

// Fence says whether a container of a pod may be created now: nil, or why not.
type Fence interface {
	Refuse(p *node.Pod) error
}

// Plugin is the NRI plugin: callbacks only.
type Plugin struct {
	sink   Sink
	fence  Fence
	synced func(runtime, version string)
	name   string
	ver    string
	clock  *clock
}

// events are what every NRI since 0.3 knows: asking for more keeps a plugin from registering with older runtimes
// (containerd/nri pkg/adaptation/plugin.go).
func events() api.EventMask {
	var m api.EventMask
	m.Set(api.Event_RUN_POD_SANDBOX, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX,
		api.Event_CREATE_CONTAINER, api.Event_START_CONTAINER, api.Event_STOP_CONTAINER, api.Event_REMOVE_CONTAINER)
	return m
}

// Configure names the events wanted.
func (p *Plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	p.name, p.ver = runtime, version
	return events(), nil
}

// Synchronize takes what exists.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	defer p.clock.done(time.Now())
	byID := make(map[string]*node.Pod, len(pods))
	all := make([]*node.Pod, 0, len(pods))
	for _, s := range pods {
		np := pod(s)
		byID[np.ID] = np
		all = append(all, np)
	}
	for _, c := range containers {
		if np := byID[c.GetPodSandboxId()]; np != nil {
			nc := container(c)
			if nc.State = node.Created; c.GetState() == api.ContainerState_CONTAINER_RUNNING {
				nc.State = node.Running
			}
			np.Containers = append(np.Containers, *nc)
		}
	}
	p.sink.Synchronize(all, time.Now())
	p.synced(p.name, p.ver)
	return nil, nil
}

func (p *Plugin) event(kind node.EventKind, s *api.PodSandbox, c *api.Container) {
	e := node.Event{Kind: kind, Pod: pod(s), At: time.Now()}
	if c != nil {
		e.Container = container(c)
	}
	p.sink.Apply(e)
}

// RunPodSandbox observes. It never refuses: a refused one costs a network set-up and leaves records that stop the next
// start of containerd 2.0 to 2.3.2 (containerd#13609); on 2.4.2, too, one was seen left as SANDBOX_UNKNOWN.
func (p *Plugin) RunPodSandbox(_ context.Context, s *api.PodSandbox) error {
	defer p.clock.done(time.Now())
	p.event(node.PodRun, s, nil)
	return nil
}

// StopPodSandbox observes; it comes after everything in the pod is dead.
func (p *Plugin) StopPodSandbox(_ context.Context, s *api.PodSandbox) error {
	defer p.clock.done(time.Now())
	p.event(node.PodStop, s, nil)
	return nil
}

// RemovePodSandbox observes.
func (p *Plugin) RemovePodSandbox(_ context.Context, s *api.PodSandbox) error {
	defer p.clock.done(time.Now())
	p.event(node.PodRemove, s, nil)
	return nil
}

// CreateContainer observes, refuses behind a fence, and gives the container's scope its stop timeout.
func (p *Plugin) CreateContainer(_ context.Context, s *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	defer p.clock.done(time.Now())
	np := pod(s)
	np.Containers = []node.Container{*container(c)} // its mounts say what the pod is for
	if err := p.fence.Refuse(np); err != nil {
		return nil, nil, err
	}
	p.event(node.ContainerCreate, s, c)
	return adjust(c), nil, nil
}

// StartContainer observes.
func (p *Plugin) StartContainer(_ context.Context, s *api.PodSandbox, c *api.Container) error {
	defer p.clock.done(time.Now())
	p.event(node.ContainerStart, s, c)
	return nil
}

// StopContainer observes; it comes after the process has ended.
func (p *Plugin) StopContainer(_ context.Context, s *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	defer p.clock.done(time.Now())
	p.event(node.ContainerStop, s, c)
	return nil, nil
}

// RemoveContainer observes.
func (p *Plugin) RemoveContainer(_ context.Context, s *api.PodSandbox, c *api.Container) error {
	defer p.clock.done(time.Now())
	p.event(node.ContainerRemove, s, c)
	return nil
}

func pod(s *api.PodSandbox) *node.Pod {
	return &node.Pod{
		ID: s.GetId(), Namespace: s.GetNamespace(), Name: s.GetName(), UID: s.GetUid(),
		Handler: s.GetRuntimeHandler(), Labels: s.GetLabels(), Annotations: s.GetAnnotations(),
		CgroupParent: s.GetLinux().GetCgroupParent(), HostNetwork: hostNetwork(s),
	}
}

// imageName is the annotation in which containerd keeps the image's name (containerd pkg/cri annotations).
const imageName = "io.kubernetes.cri.image-name"

func container(c *api.Container) *node.Container {
	nc := &node.Container{ID: c.GetId(), Name: c.GetName(), Annotations: c.GetAnnotations()}
	if image := c.GetAnnotations()[imageName]; image != "" {
		nc.Images = []string{image}
	}
	for _, m := range c.GetMounts() {
		if m.GetType() == "bind" {
			nc.Mounts = append(nc.Mounts, node.Mount{Host: m.GetSource(), Writable: writable(m.GetOptions())})
		}
	}
	return nc
}

func writable(options []string) bool {
	for _, o := range options {
		if o == "ro" || o == "rro" {
			return false
		}
	}
	return true
}
