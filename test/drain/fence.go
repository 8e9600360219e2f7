package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
)

// Refusals is how many refusals of the fence are waited for, at least.
const Refusals = 100

// FencedPods is how many pods are drained behind the fence.
const FencedPods = 20

// Fence is what a drain was like under a kubelet that makes anew at once what ends.
type Fence struct {
	Refused   int `json:"refused"`
	Created   int `json:"created_while_draining"` // containers created between the beginning of the drain and resume
	Recreated int `json:"recreated_after_resume"` // pods that run again
}

// MeasureFence drains twenty pods of all tiers under such a kubelet, and resumes.
func MeasureFence(ctx context.Context, l *lab.Lab, k *Kubelet, keep Keep) (f Fence, err error) {
	if _, err := script(ctx, l, "mkdir -p /opt/cni/bin /var/lib/kubelet/plugins"); err != nil {
		return f, err
	}
	pods := fenced()
	if err := k.Start(ctx, pods...); err != nil {
		return f, err
	}
	if err := Started(ctx, l, names(pods)...); err != nil {
		return f, err
	}
	defer k.Keep(ctx)()
	began := time.Now()
	if _, err := l.Quiesce(ctx, "drain", "--all", "--yes"); err != nil {
		return f, err
	}
	err = l.Until(ctx, fmt.Sprintf("%d creations are refused", Refusals), func(context.Context) (bool, error) { return k.Refused() >= Refusals, nil })
	if err != nil {
		return f, err
	}
	made, err := since(ctx, l, began, nil)
	if err != nil {
		return f, err
	}
	f.Created = len(made)
	f.Refused = k.Refused()
	resumed := time.Now()
	if _, err := l.Quiesce(ctx, "resume"); err != nil {
		return f, err
	}
	running := &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}
	var again []*runtimeapi.Container
	err = l.Until(ctx, "all pods run again", func(ctx context.Context) (ok bool, err error) {
		again, err = since(ctx, l, resumed, running)
		return len(again) >= len(pods), err
	})
	if err != nil {
		return f, fmt.Errorf("%w: %d of %d do", err, len(again), len(pods))
	}
	f.Recreated = len(again)
	return f, f.keep(keep, k, again)
}

// fenced are short-lived pods of all tiers.
func fenced() []Pod {
	pods := Hundred()[2*Tiers : 2*Tiers+FencedPods]
	for i, p := range pods {
		pods[i].Grace = 10
		pods[i].Containers[0].Argv = []string{"/victim", "-log", "/evidence/" + p.Name, "-after", "300ms"}
	}
	return pods
}

// since lists the containers that were created after a time, by CRI's word.
func since(ctx context.Context, l *lab.Lab, at time.Time, filter *runtimeapi.ContainerFilter) (out []*runtimeapi.Container, err error) {
	all, err := containers(ctx, l, filter)
	for _, ct := range all {
		if time.Unix(0, ct.GetCreatedAt()).After(at) {
			out = append(out, ct)
		}
	}
	return out, err
}

// keep leaves what the kubelet was told, and what runs again.
func (f Fence) keep(keep Keep, k *Kubelet, again []*runtimeapi.Container) error {
	pods := map[string]string{}
	for _, ct := range again {
		pods[podName(ct)] = time.Unix(0, ct.GetCreatedAt()).UTC().Format(time.RFC3339Nano)
	}
	b, err := json.MarshalIndent(map[string]any{"refusals": k.refusals(), "created_after_resume": pods}, "", "  ")
	if err != nil {
		return err
	}
	return keep.keep("fence.json", b)
}
