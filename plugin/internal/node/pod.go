package node

import (
	"slices"
	"time"
)

// Pod is one sandbox.
type Pod struct {
	ID        string
	Namespace string
	Name      string
	UID       string
	Handler   string // CRI runtime handler; empty is containerd's default
	Labels    map[string]string
	Ready     bool // not stopped
	Creating  bool // known to containerd, not to CRI yet
	Created   time.Time

	Annotations  map[string]string
	HostNetwork  bool
	IP           string // empty with the host's network, and where only NRI told of the pod
	CgroupParent string // as the kubelet names it; empty where only CRI's list told of the pod

	Containers []Container
	Spec       *Spec // nil where no kubelet tells
}

// Spec is what the kubelet's local pods API says of a pod.
type Spec struct {
	Deleting   bool        // it has a deletion timestamp
	Priority   *int32      // nil: none, as manifests of the node's own
	Owner      string      // kind of its controller, such as DaemonSet
	Containers []Container // names, images and host directories of all, those that are not made yet included
	Sidecars   []string    // init containers that are always restarted, in the order of the pod
	Opaque     bool        // it has volumes that may be a directory of the host without saying which
}

// Known tells whether everything is known that the pod's containers can do.
func (p *Pod) Known() bool {
	if p.Spec == nil || len(p.Spec.Containers) == 0 {
		return false
	}
	return !p.Spec.Opaque || !slices.ContainsFunc(p.Spec.Containers, func(want Container) bool {
		return !slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Name == want.Name })
	})
}

// Stopping tells whether the kubelet stops the pod right now, as far as one knows.
func (p *Pod) Stopping() bool {
	return p.Spec != nil && p.Spec.Deleting && slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Active() })
}

// planned are the containers that there are and those that there will be.
func (p *Pod) planned() []Container {
	if p.Spec == nil {
		return p.Containers
	}
	return slices.Concat(p.Containers, p.Spec.Containers)
}

// String names the pod as kubectl does.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

// Container is one container of a pod.
type Container struct {
	ID       string
	Name     string
	Images   []string // every name its image is known by
	State    ContainerState
	Mounts   []Mount
	Created  time.Time
	Finished time.Time // zero while it runs, and where the runtime does not say

	Annotations map[string]string
}

// ContainerState is the state of a container as CRI has it.
type ContainerState int

// The states.
const (
	Created ContainerState = iota
	Running
	Exited
	Unknown
)

// Active tells whether the container has a process or is about to have one.
func (c *Container) Active() bool { return c.State == Created || c.State == Running }

// Mount is a directory or file of the host in a container.
type Mount struct {
	Host     string
	Writable bool
}

// Job is the name of the pod's Job; ok says that it has one.
func (p *Pod) Job() (name string, ok bool) {
	for _, key := range []string{"batch.kubernetes.io/job-name", "job-name"} {
		if name := p.Labels[key]; name != "" {
			return name, true
		}
	}
	return "", false
}

// lastChange is when something of the pod began or ended last.
func (p *Pod) lastChange() time.Time {
	last := p.Created
	for _, c := range p.Containers {
		for _, t := range []time.Time{c.Created, c.Finished} {
			if t.After(last) {
				last = t
			}
		}
	}
	return last
}

func (p *Pod) clone() *Pod {
	c := *p
	c.Containers = slices.Clone(p.Containers)
	return &c
}
