package cri

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
)

// StopContainer is CRI's: the runtime sends the stop signal once, also over several calls (containerd keeps
// IsStopSignaledWithTimeout), and SIGKILL after timeout unless the caller has gone by then. A timeout of 0 is SIGKILL.
func (c *Client) StopContainer(ctx context.Context, id string, timeout time.Duration) error {
	_, err := c.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: int64(math.Ceil(timeout.Seconds()))})
	if err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("stop container: %w", err)
	}
	return nil
}

// StopPod stops a sandbox; what still runs in it is killed.
func (c *Client) StopPod(ctx context.Context, id string) error {
	_, err := c.rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("stop sandbox: %w", err)
	}
	return nil
}

// States lists every container with its state.
func (c *Client) States(ctx context.Context) (map[string]node.ContainerState, error) {
	all, err := c.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	out := make(map[string]node.ContainerState, len(all.GetContainers()))
	for _, ct := range all.GetContainers() {
		out[ct.GetId()] = states[ct.GetState()]
	}
	return out, nil
}

// Exit tells how a container ended.
func (c *Client) Exit(ctx context.Context, id string) (drain.Exit, error) {
	r, err := c.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if status.Code(err) == codes.NotFound {
		return drain.Exit{}, nil
	}
	if err != nil {
		return drain.Exit{}, fmt.Errorf("ask status of container: %w", err)
	}
	st := r.GetStatus()
	x := drain.Exit{Known: true, Ended: st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, Code: int(st.GetExitCode())}
	if !x.Ended {
		return x, nil
	}
	x.Lost = st.GetExitCode() == 255 && st.GetReason() == "Unknown"
	x.Killed = st.GetReason() == "OOMKilled"
	if st.GetFinishedAt() > 0 {
		x.At = time.Unix(0, st.GetFinishedAt())
	}
	return x, nil
}

// Snapshot is List with what a drain needs besides: addresses, cgroups and the host's network.
func (c *Client) Snapshot(ctx context.Context) (node.Snapshot, error) {
	began := time.Now()
	pods, err := c.List(ctx)
	if err != nil {
		return node.Snapshot{}, err
	}
	nets, err := together(pods, func(p *node.Pod) (podNet, error) { return c.net(ctx, p) })
	if err != nil {
		return node.Snapshot{}, err
	}
	for i, p := range pods {
		p.IP, p.HostNetwork = nets[i].ip, nets[i].host
	}
	return node.NewSnapshot(pods, began), nil
}

// podNet is what of a sandbox's network its list lacks. It is the same as long as the sandbox is ready.
type podNet struct {
	ip   string
	host bool
}

// net asks for a sandbox's network, once: one question takes some milliseconds, and a drain looks after each tier.
func (c *Client) net(ctx context.Context, p *node.Pod) (podNet, error) {
	if n, ok := c.nets.get(p.ID); ok || p.Creating {
		return n, nil
	}
	r, err := c.rt.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.ID})
	if status.Code(err) == codes.NotFound {
		return podNet{}, nil // removed meanwhile
	}
	if err != nil {
		return podNet{}, fmt.Errorf("ask status of pod %s: %w", p, err)
	}
	st := r.GetStatus()
	n := podNet{st.GetNetwork().GetIp(), st.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE}
	c.nets.put(p.ID, n)
	return n, nil
}

// stopSignal is the name of a stop signal, such as SIGTERM; empty if CRI does not tell.
func stopSignal(st *runtimeapi.ContainerStatus) string {
	if st.GetStopSignal() == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return ""
	}
	return strings.TrimPrefix(st.GetStopSignal().String(), "SIGNAL_")
}
