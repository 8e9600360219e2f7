package drain

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
)

// Kubelet keeps pods running through CRI.
type Kubelet struct {
	lab     *lab.Lab
	systemd bool // systemd's cgroup driver

	// While tells whether Run is to make pods anew now; nil: always. To be set before Run.
	While func() bool

	mu      sync.Mutex
	pods    []Pod
	made    []time.Time // containers that were created
	refused []refusal   // creations of containers and sandboxes that failed
}

// NewKubelet makes one that has no pods.
func NewKubelet(l *lab.Lab, systemd bool) *Kubelet { return &Kubelet{lab: l, systemd: systemd} }

// Start runs pods and keeps them from then on in Sync.
func (k *Kubelet) Start(ctx context.Context, pods ...Pod) error {
	if _, err := k.lab.Exec(ctx, "mkdir", "-p", Evidence); err != nil {
		return err
	}
	k.mu.Lock()
	k.pods = append(k.pods, pods...)
	k.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(4)
	for _, p := range pods {
		g.Go(func() error { return k.sync(ctx, p) })
	}
	return g.Wait()
}

// Run makes pods anew until ctx ends, like a kubelet but faster. What it has begun by then it ends: a runtime takes back
// the start of a container whose caller goes.
func (k *Kubelet) Run(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if k.While != nil && !k.While() {
			continue
		}
		k.mu.Lock()
		pods := slices.Clone(k.pods)
		k.mu.Unlock()
		for _, p := range pods {
			if ctx.Err() == nil {
				whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
				_ = k.sync(whole, p) // again at the next tick
				cancel()
			}
		}
	}
}

// Keep runs Run until the function that it returns is called.
func (k *Kubelet) Keep(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Made counts the containers created since a time.
func (k *Kubelet) Made(since time.Time) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, at := range k.made {
		if at.After(since) {
			n++
		}
	}
	return n
}

// refusal is a creation that failed.
type refusal struct {
	At    time.Time
	Pod   string
	Error string
}

func (k *Kubelet) refuse(p Pod, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused = append(k.refused, refusal{At: time.Now().UTC(), Pod: p.Name, Error: err.Error()})
}

// refusals are those of the fence.
func (k *Kubelet) refusals() (out []refusal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.refused {
		if strings.Contains(r.Error, "quiesce drains") {
			out = append(out, r)
		}
	}
	return out
}

// Refused is how often a creation was refused by the fence.
func (k *Kubelet) Refused() int { return len(k.refusals()) }

// sync brings one pod to what it should be: a ready sandbox, all containers running.
func (k *Kubelet) sync(ctx context.Context, p Pod) error {
	cri, err := k.lab.CRI(ctx)
	if err != nil {
		return err
	}
	label := map[string]string{"io.kubernetes.pod.uid": p.UID}
	list, err := cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: label}})
	if err != nil {
		return err
	}
	var attempt uint32
	id := ""
	for _, s := range list.GetItems() {
		attempt = max(attempt, s.GetMetadata().GetAttempt()+1)
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			id, attempt = s.GetId(), s.GetMetadata().GetAttempt()
			break
		}
	}
	config := k.sandbox(p, attempt)
	if id == "" {
		r, err := cri.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: p.Handler})
		if err != nil {
			k.refuse(p, err)
			return fmt.Errorf("run pod %s: %w", p.Name, err)
		}
		id = r.GetPodSandboxId()
	}
	for _, c := range p.Containers {
		if err := k.container(ctx, cri, p, c, id, config); err != nil {
			return fmt.Errorf("start container %s of %s: %w", c.Name, p.Name, err)
		}
	}
	return nil
}

func (k *Kubelet) container(ctx context.Context, cri runtimeapi.RuntimeServiceClient, p Pod, c Container, sandbox string, sc *runtimeapi.PodSandboxConfig) error {
	list, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": p.UID, "io.kubernetes.container.name": c.Name},
	}})
	if err != nil {
		return err
	}
	var attempt uint32
	for _, ct := range list.GetContainers() {
		attempt = max(attempt, ct.GetMetadata().GetAttempt()+1)
		if ct.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING && ct.GetPodSandboxId() == sandbox {
			return nil
		}
	}
	r, err := cri.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: k.config(p, c, attempt), SandboxConfig: sc})
	if err != nil {
		k.refuse(p, err)
		return err
	}
	k.mu.Lock()
	k.made = append(k.made, time.Now())
	k.mu.Unlock()
	_, err = cri.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: r.GetContainerId()})
	return err
}

func (k *Kubelet) sandbox(p Pod, attempt uint32) *runtimeapi.PodSandboxConfig {
	source := p.Source
	if source == "" {
		source = "api"
	}
	annotations := map[string]string{"kubernetes.io/config.source": source}
	maps.Copy(annotations, p.Annotations)
	labels := map[string]string{"io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID}
	maps.Copy(labels, p.Labels)
	parent := "/kubepods/burstable/pod" + p.UID
	if k.systemd {
		parent = "kubepods-burstable-pod" + p.UID + ".slice"
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: p.UID, Attempt: attempt},
		Labels:   labels, Annotations: annotations, LogDirectory: path.Join("/var/log/pods", p.Namespace+"_"+p.Name+"_"+p.UID),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    parent,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: p.namespaces()},
		},
	}
}

func (k *Kubelet) config(p Pod, c Container, attempt uint32) *runtimeapi.ContainerConfig {
	annotations := map[string]string{
		"io.kubernetes.container.restartCount":       strconv.Itoa(int(attempt)),
		"io.kubernetes.pod.terminationGracePeriod":   strconv.Itoa(p.Grace),
		"io.kubernetes.container.terminationMessage": "",
	}
	if c.PreStop != "" {
		annotations["io.kubernetes.container.preStopHandler"] = c.PreStop
	}
	if c.Ports != "" {
		annotations["io.kubernetes.container.ports"] = c.Ports
	}
	cfg := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: c.Image}, Command: c.Argv, Annotations: annotations,
		Labels: map[string]string{
			"io.kubernetes.container.name": c.Name, "io.kubernetes.pod.name": p.Name,
			"io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID,
		},
		LogPath: c.Name + ".log",
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       &runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2, OomScoreAdj: 1000},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: p.namespaces()},
		},
		StopSignal: runtimeapi.Signal(runtimeapi.Signal_value["SIGNAL_"+c.StopSignal]),
	}
	if c.User != 0 {
		cfg.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{Value: c.User}
	}
	for _, host := range slices.Sorted(maps.Keys(c.Mounts)) {
		cfg.Mounts = append(cfg.Mounts, &runtimeapi.Mount{HostPath: host, ContainerPath: c.Mounts[host]})
	}
	return cfg
}
