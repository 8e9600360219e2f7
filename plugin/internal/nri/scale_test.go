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
			cs = append(cs, &api.Container{
				Id: fmt.Sprint(c.GetId()[:64], i), PodSandboxId: c.GetPodSandboxId(), Name: fmt.Sprint("c", i), State: c.GetState(), Labels: c.GetLabels(),
				Annotations: c.GetAnnotations(), Env: c.GetEnv(), Args: c.GetArgs(), Mounts: c.GetMounts(),
			})
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

// BenchmarkScaleHandler is what each callback of a pod's life takes here, with 110 pods known: all of a life, and the 99th
// percentile of the callbacks.
func BenchmarkScaleHandler(b *testing.B) {
	known, running := manyPods(110)
	p := &Plugin{sink: node.NewState(), fence: &refusal{}, clock: &clock{}, synced: func(string, string) {}}
	ctx := context.Background()
	if _, err := p.Synchronize(ctx, known, running); err != nil {
		b.Fatal(err)
	}
	pods, cs := manyPods(1000)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		s, c := pods[110+i%890], cs[110+i%890]
		for _, call := range []func() error{
			func() error { return p.RunPodSandbox(ctx, s) },
			func() error { _, _, err := p.CreateContainer(ctx, s, c); return err },
			func() error { return p.StartContainer(ctx, s, c) },
			func() error { _, err := p.StopContainer(ctx, s, c); return err },
			func() error { return p.StopPodSandbox(ctx, s) },
			func() error { return p.RemovePodSandbox(ctx, s) },
		} {
			began := time.Now()
			if err := call(); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}
