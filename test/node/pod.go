package node

import (
	"crypto/rand"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod is a pod that is never restarted (restartPolicy Never).
type Pod struct {
	Namespace, Name string // default, and a random name, if empty
	UID             string // random if empty
	Labels          map[string]string
	Annotations     map[string]string
	Handler         string        // runtime handler; containerd's default if empty
	Grace           time.Duration // terminationGracePeriod, 30 s if zero, less than zero means none at all
	HostPID         bool
	HostNetwork     bool
	InitContainers  []Container // run one after the other
	Containers      []Container // run together
}

// Container is a container of a pod.
type Container struct {
	Name       string // main, or init, if empty
	Image      string // BusyboxImage if empty
	Command    []string
	Args       []string
	Env        map[string]string
	Mounts     []Mount
	Privileged bool
	StopSignal string   // such as SIGUSR1; the image's if empty
	PreStop    []string // exec hook run before the stop signal
	// Security is what a pod's securityContext becomes; nil: what Privileged says. The namespaces are the pod's.
	Security *runtimeapi.LinuxContainerSecurityContext
}

// Mount is a host path of the node in a container.
type Mount struct {
	Host, Container string
	ReadOnly        bool
	Propagation     runtimeapi.MountPropagation
}

// Shell is a container that runs a script with busybox's shell.
func Shell(script string) Container {
	return Container{Command: []string{"/bin/sh", "-c", script}}
}

// JobLabels are the labels that the Job controller puts on the pods of a Job.
func JobLabels(name string) map[string]string {
	uid := newUID()
	return map[string]string{
		"batch.kubernetes.io/job-name": name, "job-name": name,
		"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid,
	}
}

// newUID is a random UID in the usual notation.
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// withDefaults fills in what the caller left out.
func (p Pod) withDefaults() Pod {
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	if p.UID == "" {
		p.UID = newUID()
	}
	if p.Name == "" {
		p.Name = "pod-" + p.UID[:8]
	}
	switch {
	case p.Grace == 0:
		p.Grace = 30 * time.Second
	case p.Grace < 0:
		p.Grace = 0
	}
	p.InitContainers = named(p.InitContainers, "init")
	p.Containers = named(p.Containers, "main")
	return p
}

// named gives containers without a name or image theirs.
func named(containers []Container, prefix string) []Container {
	all := make([]Container, len(containers))
	for i, c := range containers {
		if c.Name == "" {
			c.Name = prefix
			if i > 0 {
				c.Name += strconv.Itoa(i)
			}
		}
		if c.Image == "" {
			c.Image = BusyboxImage
		}
		all[i] = c
	}
	return all
}

// logDir is where the pod's logs go.
func (p Pod) logDir() string {
	return path.Join("/var/log/pods", p.Namespace+"_"+p.Name+"_"+p.UID)
}

// labels are those that a kubelet puts on a sandbox.
func (p Pod) labels() map[string]string {
	l := map[string]string{
		"io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID,
	}
	maps.Copy(l, p.Labels)
	return l
}

// cgroupParent is the cgroup of a BestEffort pod, as a kubelet names it for either cgroup driver.
func (p Pod) cgroupParent(systemd bool) string {
	if systemd {
		return "kubepods-besteffort-pod" + underscores(p.UID) + ".slice"
	}
	return "/kubepods/besteffort/pod" + p.UID
}

// namespaces are the namespace options of sandbox and containers.
func (p Pod) namespaces() *runtimeapi.NamespaceOption {
	o := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if p.HostPID {
		o.Pid = runtimeapi.NamespaceMode_NODE
	}
	if p.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	return o
}

// sandboxConfig is the CRI form of the pod.
func (p Pod) sandboxConfig(attempt uint32, systemd bool, now time.Time) *runtimeapi.PodSandboxConfig {
	annotations := map[string]string{
		"kubernetes.io/config.seen": now.Format(time.RFC3339Nano), "kubernetes.io/config.source": "api",
	}
	maps.Copy(annotations, p.Annotations)
	privileged := false
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		privileged = privileged || c.Privileged
	}
	hostname := p.Name
	if p.HostNetwork {
		hostname = "" // such a pod shares the host's UTS namespace
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: p.UID, Attempt: attempt},
		Hostname:     hostname,
		LogDirectory: p.logDir(),
		Labels:       p.labels(),
		Annotations:  annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: p.cgroupParent(systemd),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: p.namespaces(), Privileged: privileged,
			},
		},
	}
}
