package drain

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// frozen is how long a call may take beside a stop of 25 s; a call that containerd freezes takes as long as the stop.
const frozen = 12 * time.Second

// TestDrain_j makes and removes other pods beside a drain with long graces, while plugins register with NRI: a stop in
// one long call would freeze both (containerd#14083). On containerd 1.7 quiesce is not on the node, and drains all the same.
func TestDrain_j(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.7.35", "2.2.9", node.DefaultContainerd} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			o := lab.Options{Name: "drain-j", Node: node.Config{Containerd: version}}
			quiesce := "/opt/quiesce/bin/quiesce"
			if version == "1.7.35" {
				o.NoHost, quiesce = true, "/root/quiesce/quiesce"
				o.Node.ContainerdTables = "[plugins.'io.containerd.nri.v1.nri']\n  disable = false\n"
			}
			ctx, l, k := setup(t, o)
			sh(ctx, t, l, "mkdir -p /var/lib/quiesce")
			long := []Pod{Victim("slow", "a", 60, "-after", "25s", "-code", "7"), Victim("slow", "b", 60, "-after", "25s", "-code", "7")}
			check(t, k.Start(ctx, long...))
			started(ctx, t, l, names(long)...)
			done := make(chan error, 1)
			go func() {
				_, err := l.Exec(ctx, quiesce, "drain", "--selector", "slow/*")
				done <- err
			}()
			check(t, l.Until(ctx, "a is signalled", func(context.Context) (bool, error) {
				select {
				case err := <-done:
					return false, errors.Join(errors.New("the drain is over"), err)
				default:
				}
				return len(signals(t, l, "a")) == 1, nil
			}))
			beside(ctx, t, l, done)
			for _, p := range long {
				if got := signals(t, l, p.Name); len(got) != 1 {
					t.Errorf("%s got %v", p.Name, got)
				}
			}
			codes(ctx, t, l)
		})
	}
}

// beside makes pods and registers plugins until the drain is done.
func beside(ctx context.Context, t *testing.T, l *lab.Lab, done <-chan error) {
	t.Helper()
	cri, err := l.CRI(ctx)
	check(t, err)
	var pods, registrations int
	var slowestPod, slowestRegistration time.Duration
	for over := false; !over; {
		select {
		case err := <-done:
			check(t, err)
			over = true
			continue
		default:
		}
		began := time.Now()
		register(ctx, t, l)
		registrations, slowestRegistration = registrations+1, max(slowestRegistration, time.Since(began))
		began = time.Now()
		pod, err := l.BeginPod(ctx, node.Pod{Containers: []node.Container{node.Shell("sleep 1000")}})
		check(t, err)
		pods, slowestPod = pods+1, max(slowestPod, time.Since(began))
		_, err = cri.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.SandboxID})
		check(t, err)
	}
	t.Logf("beside a stop of 25 s: %d pods were made, the slowest took %v; %d registrations with NRI, the slowest took %v",
		pods, slowestPod, registrations, slowestRegistration)
	if pods < 2 || slowestPod > frozen || slowestRegistration > frozen {
		t.Error("CRI or NRI was frozen")
	}
}

// register registers a plugin with NRI and takes it away again.
func register(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	conn, err := l.Dial(ctx, "/run/nri/nri.sock")
	check(t, err)
	p := &plugin{done: make(chan struct{})}
	s, err := stub.New(p, stub.WithPluginName("probe"), stub.WithPluginIdx("90"), stub.WithConnection(conn))
	check(t, err)
	check(t, s.Start(ctx))
	defer s.Stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		t.Fatal(errors.Join(errors.New("the plugin was not synchronized"), context.Cause(ctx)))
	}
}

// plugin waits to be synchronized.
type plugin struct {
	once sync.Once
	done chan struct{}
}

// Synchronize is the end of a registration.
func (p *plugin) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	p.once.Do(func() { close(p.done) })
	return nil, nil
}

// RemovePodSandbox makes it a plugin: one that asks for no event is refused.
func (p *plugin) RemovePodSandbox(context.Context, *api.PodSandbox) error { return nil }

// codes expects CRI to know the exit codes of the pods that were drained.
func codes(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	cri, err := l.CRI(ctx)
	check(t, err)
	list, err := containers(ctx, l, &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"io.kubernetes.pod.namespace": "slow"}})
	check(t, err)
	for _, ct := range list {
		s, err := cri.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: ct.GetId()})
		check(t, err)
		if s.GetStatus().GetExitCode() != 7 {
			t.Errorf("%s: %v", podName(ct), s.GetStatus())
		}
	}
	if len(list) != 2 {
		t.Errorf("CRI knows %d containers of the drained pods", len(list))
	}
}
