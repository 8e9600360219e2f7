package nri

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"quiesce/plugin/internal/node"
)

// manyPods makes n pods of one container each, as large as they are on a real node (2 kB).
func manyPods(n int) (pods []*api.PodSandbox, cs []*api.Container) {
	labels := map[string]string{"app": "web", "pod-template-hash": "5d4f8c7b9", "io.kubernetes.pod.uid": strings.Repeat("u", 36)}
	annotations := map[string]string{imageName: "registry.example/team/web:1", grace: "30", "io.kubernetes.container.preStopHandler": strings.Repeat("p", 200)}
	var env []string
	for i := range 20 {
		env = append(env, fmt.Sprintf("SERVICE_%d_PORT=tcp://10.0.0.%d:8080", i, i))
	}
	for i := range n {
		id := fmt.Sprintf("%064d", i)
		pods = append(pods, &api.PodSandbox{Id: "p" + id, Name: fmt.Sprint("web-", i), Namespace: "default", Uid: id, Labels: labels, Annotations: annotations})
		cs = append(cs, &api.Container{
			Id: "c" + id, PodSandboxId: "p" + id, Name: "main", State: api.ContainerState_CONTAINER_RUNNING, Labels: labels, Annotations: annotations, Env: env,
			Args:   []string{"/web", "--listen", ":8080"},
			Mounts: []*api.Mount{{Source: "/var/lib/kubelet/pods/" + id + "/etc-hosts", Destination: "/etc/hosts", Type: "bind", Options: []string{"rbind", "rw"}}},
		})
	}
	return pods, cs
}

// TestFiveThousandContainers: a runtime with 5,000 containers synchronizes the plugin within its own limit of 2 s, over
// NRI's own adaptation: marshalled, sent in parts, and taken.
func TestFiveThousandContainers(t *testing.T) {
	patient(t)
	r := newRuntimeOf(t, func() ([]*api.PodSandbox, []*api.Container) { return manyPods(5000) })
	state := node.NewState()
	s := NewSession(r.socket, state, &refusal{})
	stop := run(t, s)
	defer stop()
	r.wait(t, s)
	if n := len(state.Snapshot().Pods); n != 5000 {
		t.Errorf("%d pods are known", n)
	}
	began := time.Now()
	p, c := podsNamed(1)[0], containersOf(1)[0]
	if _, err := r.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: p, Container: c}); err != nil {
		t.Error(err)
	}
	t.Logf("an event beside them took %v", time.Since(began))
}

func BenchmarkSynchronize5000(b *testing.B) {
	pods, cs := manyPods(5000)
	for b.Loop() {
		p := &Plugin{sink: node.NewState(), fence: &refusal{}, clock: &clock{}, synced: func(string, string) {}}
		if _, err := p.Synchronize(context.Background(), pods, cs); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEventBeside5000 is an event on a node that has 5,000 containers.
func BenchmarkEventBeside5000(b *testing.B) {
	pods, cs := manyPods(5000)
	p := &Plugin{sink: node.NewState(), fence: &refusal{}, clock: &clock{}, synced: func(string, string) {}}
	if _, err := p.Synchronize(context.Background(), pods, cs); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := p.CreateContainer(context.Background(), pods[0], cs[0]); err != nil {
			b.Fatal(err)
		}
	}
}
