package nri

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"quiesce/plugin/internal/node"
)

// crowd is n pods of five containers each.
func crowd(n int) (pods []*api.PodSandbox, cs []*api.Container) {
	pods, first := manyPods(n)
	for _, c := range first {
		for i := range 5 {
			d := *c //nolint:govet // a copy of a message that nobody has used yet
			d.Id, d.Name = fmt.Sprint(c.GetId()[:63], i), fmt.Sprint("c", i)
			cs = append(cs, &d)
		}
	}
	return pods, cs
}

// BenchmarkScaleSynchronize is the time from a plugin's start until a runtime with so many pods has synchronized it, over
// NRI's own adaptation: quiesce, and a plugin that does nothing.
func BenchmarkScaleSynchronize(b *testing.B) {
	adaptation.SetPluginRequestTimeout(time.Minute)
	b.Cleanup(func() { adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout) })
	for _, n := range []int{10, 100, 1000, 10000} {
		pods, cs := crowd(n)
		r := newRuntimeOf(b, func() ([]*api.PodSandbox, []*api.Container) { return pods, cs })
		b.Run(fmt.Sprintf("quiesce/%d", n), func(b *testing.B) {
			for b.Loop() {
				state := node.NewState()
				end := start(b, func(ctx context.Context) error { return NewSession(r.socket, state, &refusal{}).Once(ctx) })
				<-r.synced
				b.StopTimer()
				end()
				if got := len(state.Snapshot().Pods); got != n {
					b.Fatalf("%d pods are known", got)
				}
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("idle/%d", n), func(b *testing.B) {
			for b.Loop() {
				end := start(b, func(ctx context.Context) error { return idleOnce(ctx, r.socket) })
				<-r.synced
				b.StopTimer()
				end()
				b.StartTimer()
			}
		})
	}
}

// start runs f until end is called.
func start(b *testing.B, f func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// idle is a plugin that only registers.
type idle struct{ stub.Plugin }

func (idle) Configure(context.Context, string, string, string) (api.EventMask, error) {
	return events(), nil
}

func (idle) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

func (idle) RunPodSandbox(context.Context, *api.PodSandbox) error    { return nil }
func (idle) StopPodSandbox(context.Context, *api.PodSandbox) error   { return nil }
func (idle) RemovePodSandbox(context.Context, *api.PodSandbox) error { return nil }
func (idle) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, nil
}
func (idle) StartContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }
func (idle) StopContainer(context.Context, *api.PodSandbox, *api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}
func (idle) RemoveContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

func idleOnce(ctx context.Context, socket string) error {
	s, err := stub.New(idle{}, stub.WithPluginName("idle"), stub.WithPluginIdx("20"), stub.WithSocketPath(socket))
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	s.Stop()
	return nil
}

// BenchmarkScaleCallback is what a runtime with 110 pods waits for a callback, over NRI's own adaptation and the socket:
// all of a pod's life, and the 99th percentile of its calls.
func BenchmarkScaleCallback(b *testing.B) {
	for name, once := range map[string]func(context.Context, string) error{
		"quiesce": func(ctx context.Context, socket string) error {
			return NewSession(socket, node.NewState(), &refusal{}).Once(ctx)
		},
		"idle": idleOnce,
	} {
		b.Run(name, func(b *testing.B) {
			r := newRuntimeOf(b, func() ([]*api.PodSandbox, []*api.Container) { return manyPods(110) })
			end := start(b, func(ctx context.Context) error { return once(ctx, r.socket) })
			defer end()
			<-r.synced
			r.BlockPluginSync().Unblock()
			pods, cs := manyPods(1000)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				took = append(took, life(b, r, pods[i%len(pods)], cs[i%len(cs)])...)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// life tells how long each callback of a pod's life took.
func life(b *testing.B, r *runtime, p *api.PodSandbox, c *api.Container) (took []time.Duration) {
	b.Helper()
	ctx := context.Background()
	for _, call := range []func() error{
		func() error { return r.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: p}) },
		func() error {
			_, err := r.CreateContainer(ctx, &api.CreateContainerRequest{Pod: p, Container: c})
			return err
		},
		func() error { return r.StartContainer(ctx, &api.StartContainerRequest{Pod: p, Container: c}) },
		func() error {
			_, err := r.StopContainer(ctx, &api.StopContainerRequest{Pod: p, Container: c})
			return err
		},
		func() error { return r.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: p}) },
		func() error { return r.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: p}) },
	} {
		began := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return took
}
