package nri

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"quiesce/plugin/internal/node"
)

// TestNoRegistrationDuringStops: neither the first registration nor one after containerd's restart comes while containers
// are being stopped, and it comes when they are.
func TestNoRegistrationDuringStops(t *testing.T) {
	patient(t)
	r := newRuntime(t, 1)
	s := NewSession(r.socket, node.NewState(), &refusal{})
	var calm atomic.Bool
	asked := make(chan struct{})
	s.Calm = func(ctx context.Context) bool {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
		}
		return calm.Load()
	}
	defer run(t, s)()
	for range 2 {
		for range 4 {
			<-asked
			select {
			case <-r.synced:
				t.Fatal("it registered while containers are being stopped")
			default:
			}
		}
		calm.Store(true)
		for limit, synced := time.After(time.Minute), false; !synced; {
			select {
			case <-asked:
			case <-r.synced:
				synced = true
			case <-limit:
				t.Fatal("it does not register")
			}
		}
		calm.Store(false)
		r.cut()
	}
}

// TestEventsOutOfOrder: events that are lost, come twice, or come before what they follow, of pods that nobody knows, end no
// connection; and the next list is what counts.
func TestEventsOutOfOrder(t *testing.T) {
	patient(t)
	r := newRuntime(t, 1)
	state := node.NewState()
	s := NewSession(r.socket, state, &refusal{})
	defer run(t, s)()
	r.wait(t, s)
	since := s.Status().Since
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng, ctx := rand.New(rand.NewPCG(seed, 0)), t.Context()
	for i := range 300 {
		p := &api.PodSandbox{Id: name("odd", rng.IntN(4)), Name: "odd", Namespace: "default"}
		c := &api.Container{Id: name("c", rng.IntN(6)), PodSandboxId: p.Id, Name: "main"}
		if rng.IntN(8) == 0 {
			p, c = &api.PodSandbox{}, &api.Container{}
		}
		if err := r.any(ctx, rng.IntN(7), p, c); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if st := s.Status(); !st.Connected || !st.Since.Equal(since) {
		t.Errorf("connected since %v: %+v", since, st)
	}
	listed := []*node.Pod{{ID: "real", Namespace: "default", Name: "real", Ready: true}}
	state.Replace(listed, time.Now())
	if got := state.Snapshot().Pods; len(got) != 1 || got[0].ID != "real" {
		t.Errorf("after a list, pods are %v", got)
	}
}

// patient lets the runtime wait longer for a plugin than it does: this machine may be busy.
func patient(t *testing.T) {
	t.Helper()
	adaptation.SetPluginRequestTimeout(slowdown * adaptation.DefaultPluginRequestTimeout)
	t.Cleanup(func() { adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout) })
}

// any sends one of the events.
func (r *runtime) any(ctx context.Context, kind int, p *api.PodSandbox, c *api.Container) (err error) {
	switch kind {
	case 0:
		return r.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: p})
	case 1:
		_, err = r.CreateContainer(ctx, &api.CreateContainerRequest{Pod: p, Container: c})
		return err
	case 2:
		return r.StartContainer(ctx, &api.StartContainerRequest{Pod: p, Container: c})
	case 3:
		_, err = r.StopContainer(ctx, &api.StopContainerRequest{Pod: p, Container: c})
		return err
	case 4:
		return r.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: p, Container: c})
	case 5:
		return r.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: p})
	default:
		return r.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: p})
	}
}
