package kube

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Meta is what is read of an object's metadata.
type Meta struct {
	Name, Namespace, UID string
	Labels, Annotations  map[string]string
	Created              time.Time  `json:"creationTimestamp"`
	Deleted              *time.Time `json:"deletionTimestamp"`
	Owners               []struct {
		Kind, Name string
	} `json:"ownerReferences"`
}

// Node is what is read of a node.
type Node struct {
	Metadata Meta
	Status   struct {
		Conditions []struct {
			Type, Status string
			Heartbeat    time.Time `json:"lastHeartbeatTime"`
		}
		RuntimeHandlers []struct{ Name string } `json:"runtimeHandlers"`
		Info            struct {
			Kubelet string `json:"kubeletVersion"`
			Runtime string `json:"containerRuntimeVersion"`
		} `json:"nodeInfo"`
	}
}

// Ready tells whether a kubelet has said since a time that the node is ready. The API has whole seconds.
func (n *Node) Ready(since time.Time) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True" && !c.Heartbeat.Before(since.Truncate(time.Second))
		}
	}
	return false
}

// Handlers are the runtime handlers in the node's status, sorted; containerd's default is the empty one.
func (n *Node) Handlers() (names []string) {
	for _, h := range n.Status.RuntimeHandlers {
		names = append(names, h.Name)
	}
	slices.Sort(names)
	return names
}

// NodeStatus reads the node.
func (c *Cluster) NodeStatus(ctx context.Context) (n Node, err error) {
	return n, c.Get(ctx, "/api/v1/nodes/"+NodeName, &n)
}

// Job is what is read of a Job.
type Job struct {
	Metadata Meta
	Status   struct {
		Active, Succeeded, Failed int
		Conditions                []struct{ Type, Status, Reason, Message string }
	}
}

// Is tells whether a condition of the Job holds.
func (j *Job) Is(condition string) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == condition && c.Status == "True" {
			return true
		}
	}
	return false
}

// Job reads a Job.
func (c *Cluster) Job(ctx context.Context, namespace, name string) (j Job, err error) {
	return j, c.Get(ctx, fmt.Sprintf("/apis/batch/v1/namespaces/%s/jobs/%s", namespace, name), &j)
}

// WaitJob waits until a Job is complete or has failed.
func (c *Cluster) WaitJob(ctx context.Context, namespace, name string) (Job, error) {
	var last Job
	err := c.Until(ctx, "Job "+name+" is over", func(ctx context.Context) (bool, error) {
		j, err := c.Job(ctx, namespace, name)
		if err == nil {
			last = j
		}
		return err == nil && (j.Is("Complete") || j.Is("Failed")), nil
	})
	if err != nil {
		err = fmt.Errorf("%w; it is %+v", err, last.Status)
	}
	return last, err
}

// ContainerStatus is what is read of a container of a pod.
type ContainerStatus struct {
	Name, ContainerID string
	RestartCount      int
	State             struct {
		Waiting    *struct{ Reason, Message string }
		Running    *struct{ StartedAt time.Time }
		Terminated *Terminated
	}
	LastState struct{ Terminated *Terminated }
}

// Terminated is the end of a container.
type Terminated struct {
	ExitCode              int
	Reason                string
	StartedAt, FinishedAt time.Time
}

// Pod is what is read of a pod.
type Pod struct {
	Metadata Meta
	Spec     struct {
		NodeName         string
		RuntimeClassName string
	}
	Status struct {
		Phase, Reason, Message string
		Conditions             []struct {
			Type, Status, Reason string
			At                   time.Time `json:"lastTransitionTime"`
		}
		InitContainerStatuses, ContainerStatuses []ContainerStatus
	}
}

// Ends are the ends of the pod's containers that have ended.
func (p *Pod) Ends() (ends []Terminated) {
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			ends = append(ends, *t)
		}
	}
	return ends
}

// Is tells whether a condition of the pod holds, and since when.
func (p *Pod) Is(condition string) (bool, time.Time) {
	for _, c := range p.Status.Conditions {
		if c.Type == condition {
			return c.Status == "True", c.At
		}
	}
	return false, time.Time{}
}

// Restarts is how often its containers were started again.
func (p *Pod) Restarts() (n int) {
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// Pods lists the pods of a namespace, all if it is empty, that match a selector, oldest first.
func (c *Cluster) Pods(ctx context.Context, namespace, selector string) ([]Pod, error) {
	path := "/api/v1/pods"
	if namespace != "" {
		path = "/api/v1/namespaces/" + namespace + "/pods"
	}
	var list struct{ Items []Pod }
	if err := c.Get(ctx, path+"?labelSelector="+url.QueryEscape(selector), &list); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b Pod) int { return a.Metadata.Created.Compare(b.Metadata.Created) })
	return list.Items, nil
}

// JobPods lists the pods that a Job has made.
func (c *Cluster) JobPods(ctx context.Context, namespace, job string) ([]Pod, error) {
	return c.Pods(ctx, namespace, "batch.kubernetes.io/job-name="+job)
}

// Pod reads a pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (p Pod, err error) {
	return p, c.Get(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", namespace, name), &p)
}

// WaitPod waits until a pod is in a phase.
func (c *Cluster) WaitPod(ctx context.Context, namespace, name, phase string) (p Pod, err error) {
	err = c.Until(ctx, fmt.Sprintf("pod %s is %s", name, phase), func(ctx context.Context) (bool, error) {
		got, err := c.Pod(ctx, namespace, name)
		if err == nil {
			p = got
		}
		return err == nil && p.Status.Phase == phase, nil
	})
	if err != nil {
		err = fmt.Errorf("%w; it is %+v", err, p.Status)
	}
	return p, err
}
