package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ID is the CRI id of a container, empty before it was created.
func (p *RunningPod) ID(container string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[container]
}

// Status is what CRI says of a container.
func (p *RunningPod) Status(ctx context.Context, container string) (*runtimeapi.ContainerStatus, error) {
	answer, err := p.cri.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: p.ID(container)})
	if err != nil {
		return nil, fmt.Errorf("read status of %s of %s: %w", container, p.Pod.Name, err)
	}
	return answer.GetStatus(), nil
}

// Statuses is what CRI says of every container that was created, by name.
func (p *RunningPod) Statuses(ctx context.Context) (map[string]*runtimeapi.ContainerStatus, error) {
	all := map[string]*runtimeapi.ContainerStatus{}
	for _, name := range p.names() {
		s, err := p.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		all[name] = s
	}
	return all, nil
}

// names are the containers that were created, in the order of the pod.
func (p *RunningPod) names() []string {
	var names []string
	for _, c := range slices.Concat(p.Pod.InitContainers, p.Pod.Containers) {
		if p.ID(c.Name) != "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// Wait waits until all containers have ended and then stops the sandbox.
func (p *RunningPod) Wait(ctx context.Context) error {
	for _, name := range p.names() {
		if _, err := p.waitContainer(ctx, name); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for pod %s: %w", p.Pod.Name, context.Cause(ctx))
	case <-time.After(stopDelay):
		return p.stopSandbox(ctx)
	}
}

// WaitContainer waits until a container has ended.
func (p *RunningPod) WaitContainer(ctx context.Context, container string) (*runtimeapi.ContainerStatus, error) {
	return p.waitContainer(ctx, container)
}

func (p *RunningPod) waitContainer(ctx context.Context, name string) (*runtimeapi.ContainerStatus, error) {
	var last *runtimeapi.ContainerStatus
	err := poll(ctx, statusEvery, func() (bool, error) {
		s, err := p.Status(ctx, name)
		if status.Code(err) == codes.NotFound {
			return false, err
		}
		if err == nil {
			last = s
		}
		return err == nil && s.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, nil
	})
	if err != nil {
		return last, fmt.Errorf("wait for container %s of %s (last seen %s): %w", name, p.Pod.Name, last.GetState(), err)
	}
	return last, nil
}

// Stop stops all containers at once with the pod's grace period, after their preStop hooks, then the sandbox.
func (p *RunningPod) Stop(ctx context.Context) error {
	var group errgroup.Group
	for _, c := range slices.Concat(p.Pod.InitContainers, p.Pod.Containers) {
		if p.ID(c.Name) != "" {
			group.Go(func() error { return p.stopContainer(ctx, c) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return p.stopSandbox(ctx)
}

func (p *RunningPod) stopContainer(ctx context.Context, c Container) error {
	id, grace := p.ID(c.Name), int64(p.Pod.graceSeconds())
	if len(c.PreStop) > 0 {
		began := time.Now()
		// A kubelet only logs a failed hook.
		_, _ = p.cri.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: c.PreStop, Timeout: grace})
		grace = max(2, grace-int64(time.Since(began).Seconds()))
	}
	err := p.retry(ctx, func() error {
		_, err := p.cri.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: grace})
		return ignoreGone(err)
	})
	if err != nil {
		return fmt.Errorf("stop container %s of %s: %w", c.Name, p.Pod.Name, err)
	}
	return nil
}

func (p *RunningPod) stopSandbox(ctx context.Context) error {
	err := p.retry(ctx, func() error {
		_, err := p.cri.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.SandboxID})
		return ignoreGone(err)
	})
	if err != nil {
		return fmt.Errorf("stop sandbox of %s: %w", p.Pod.Name, err)
	}
	return nil
}

// Remove removes the containers, then the sandbox, then the pod's cgroup. The pod should be stopped.
func (p *RunningPod) Remove(ctx context.Context) error {
	for _, name := range p.names() {
		err := p.retry(ctx, func() error {
			_, err := p.cri.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: p.ID(name)})
			return ignoreGone(err)
		})
		if err != nil {
			return fmt.Errorf("remove container %s of %s: %w", name, p.Pod.Name, err)
		}
	}
	err := p.retry(ctx, func() error {
		_, err := p.cri.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.SandboxID})
		return ignoreGone(err)
	})
	if err != nil {
		return fmt.Errorf("remove sandbox of %s: %w", p.Pod.Name, err)
	}
	return p.removeCgroup(ctx)
}

// removeCgroup removes the pod's cgroup, which is the kubelet's task and not the runtime's.
func (p *RunningPod) removeCgroup(ctx context.Context) error {
	parent := p.Pod.cgroupParent(p.node.cfg.SystemdCgroup)
	if p.node.cfg.SystemdCgroup {
		_, err := p.node.Exec(ctx, "systemctl", "stop", parent)
		return err
	}
	mounts, err := cgroupMounts()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, m := range mounts {
		dir := path.Join(m.path, p.node.ID, parent)
		err := poll(ctx, 50*time.Millisecond, func() (bool, error) { // again while something in it is still ending, as the kubelet does
			err := removeCgroups(dir)
			return err == nil, ignoreBusy(err)
		})
		if err != nil {
			return fmt.Errorf("remove cgroup %s of %s: %w", dir, p.Pod.Name, err)
		}
	}
	return nil
}

// removeCgroups removes a cgroup and those below it, if there are no processes in them.
func removeCgroups(dir string) error {
	below, err := filepath.Glob(path.Join(dir, "*", "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, procs := range below {
		if err := removeCgroups(path.Dir(procs)); err != nil {
			return err
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func ignoreBusy(err error) error {
	if errors.Is(err, syscall.EBUSY) {
		return nil
	}
	return err
}

// Log is what a container printed, without CRI's time stamps.
func (p *RunningPod) Log(container string) (string, error) {
	data, err := p.node.ReadFile(path.Join(p.Pod.logDir(), container, "0.log"))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(line, " ", 4)
		if len(parts) == 4 {
			out.WriteString(parts[3])
		}
	}
	return out.String(), nil
}

// ignoreGone makes success of an error that says that the object is not there.
func ignoreGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}
