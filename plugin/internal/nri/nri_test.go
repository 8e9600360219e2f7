package nri

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"go.uber.org/goleak"

	"quiesce/plugin/internal/node"
)

func TestMain(m *testing.M) {
	// What TestHungRegistration proves: such a stub never ends.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/containerd/nri/pkg/stub.(*stub).Start"))
}

// runtime is NRI's own adaptation, as containerd uses it, behind a socket whose connections can be cut.
type runtime struct {
	*adaptation.Adaptation
	socket string
	proxy  net.Listener
	mu     sync.Mutex
	conns  []net.Conn
	synced chan struct{}
}

func newRuntime(t testing.TB, pods int) *runtime {
	t.Helper()
	return newRuntimeOf(t, func() ([]*api.PodSandbox, []*api.Container) { return podsNamed(pods), containersOf(pods) })
}

func newRuntimeOf(t testing.TB, all func() ([]*api.PodSandbox, []*api.Container)) *runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &runtime{socket: filepath.Join(dir, "s"), synced: make(chan struct{}, 10)}
	behind := filepath.Join(dir, "r")
	sync := func(ctx context.Context, cb adaptation.SyncCB) error {
		pods, containers := all()
		_, err := cb(ctx, pods, containers)
		r.synced <- struct{}{}
		return err
	}
	update := func(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
		return nil, nil
	}
	r.Adaptation, err = adaptation.New("containerd", "2.4.2", sync, update, adaptation.WithSocketPath(behind), adaptation.WithPluginPath(dir+"/none"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	<-r.synced // of no plugin
	t.Cleanup(r.Stop)
	if r.proxy, err = net.Listen("unix", r.socket); err != nil {
		t.Fatal(err)
	}
	go r.serve(behind)
	t.Cleanup(func() { r.proxy.Close(); r.cut() })
	return r
}

func podsNamed(n int) (out []*api.PodSandbox) {
	for i := range n {
		out = append(out, &api.PodSandbox{Id: name("p", i), Name: name("p", i), Namespace: "default", RuntimeHandler: "spin"})
	}
	return out
}

func containersOf(n int) (out []*api.Container) {
	for i := range n {
		out = append(out, &api.Container{Id: name("c", i), PodSandboxId: name("p", i), Name: "main", State: api.ContainerState_CONTAINER_RUNNING})
	}
	return out
}

func name(prefix string, i int) string { return prefix + string(rune('a'+i)) }

func (r *runtime) serve(behind string) {
	for {
		c, err := r.proxy.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("unix", behind)
		if err != nil {
			c.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, c, b)
		r.mu.Unlock()
		go pipe(c, b)
		go pipe(b, c)
	}
}

func pipe(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			_ = errors.Join(to.Close(), from.Close())
			return
		}
	}
}

// cut ends all connections, as the end of containerd does.
func (r *runtime) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

type refusal struct {
	mu  sync.Mutex
	err error
}

func (f *refusal) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *refusal) Refuse(*node.Pod) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func run(t *testing.T, s *Session) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func (r *runtime) wait(t *testing.T, s *Session) {
	t.Helper()
	select {
	case <-r.synced:
	case <-time.After(20 * time.Second):
		t.Fatal("no plugin was synchronized")
	}
	r.BlockPluginSync().Unblock() // events sent earlier may be lost
	if !s.Status().Connected {
		t.Error("synchronized, but the session says it is not connected")
	}
}

func TestEventsAndReconnect(t *testing.T) {
	r := newRuntime(t, 2)
	state, fence := node.NewState(), &refusal{}
	s := NewSession(r.socket, state, fence)
	stop := run(t, s)
	defer stop()
	r.wait(t, s)
	if pods := state.Snapshot().ByHandler()["spin"]; len(pods) != 2 || pods[0].Containers[0].State != node.Running {
		t.Errorf("synchronized %v", pods)
	}
	ctx := context.Background()
	p := &api.PodSandbox{Id: "new", Name: "new", Namespace: "kube-system", Labels: map[string]string{"job-name": "x"}}
	c := &api.Container{
		Id: "nc", PodSandboxId: "new", Name: "main", Annotations: map[string]string{imageName: "a/b:1"},
		Mounts: []*api.Mount{{Source: "/", Type: "bind", Options: []string{"rbind", "rw"}}, {Source: "/etc", Type: "bind", Options: []string{"ro"}}},
	}
	if err := r.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: p}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.CreateContainer(ctx, &api.CreateContainerRequest{Pod: p, Container: c}); err != nil {
		t.Fatal(err)
	}
	got := find(state, "new")
	if got == nil || len(got.Containers) != 1 || !slices.Equal(got.Containers[0].Images, []string{"a/b:1"}) {
		t.Fatalf("the new pod is %+v", got)
	}
	if m := got.Containers[0].Mounts; len(m) != 2 || !m[0].Writable || m[1].Writable {
		t.Errorf("its mounts are %+v", m)
	}
	fence.set(errors.New("not now"))
	if _, err := r.CreateContainer(ctx, &api.CreateContainerRequest{Pod: p, Container: c}); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("behind the fence: %v", err)
	}
	fence.set(nil)
	if _, err := r.StopContainer(ctx, &api.StopContainerRequest{Pod: p, Container: c}); err != nil {
		t.Fatal(err)
	}
	if got := find(state, "new").Containers[0].State; got != node.Exited {
		t.Errorf("a stopped container is %v", got)
	}
	for range 3 { // containerd ends, and comes back
		r.cut()
		r.wait(t, s)
	}
	if err := r.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: p}); err != nil {
		t.Fatal(err)
	}
	if find(state, "new").Ready {
		t.Error("a stopped pod is ready")
	}
}

func find(s *node.State, id string) *node.Pod {
	for _, p := range s.Snapshot().Pods {
		if p.ID == id {
			return p
		}
	}
	return nil
}

func TestNoRuntime(t *testing.T) {
	s := NewSession(filepath.Join(t.TempDir(), "none"), node.NewState(), &refusal{})
	stop := run(t, s)
	deadline := time.After(10 * time.Second)
	for s.Status().LastError == "" {
		select {
		case <-deadline:
			t.Fatal("no error is told")
		case <-time.After(5 * time.Millisecond):
		}
	}
	stop()
	if st := s.Status(); st.Connected || !strings.Contains(st.LastError, "no such file") {
		t.Errorf("status is %+v", st)
	}
}

// TestHungRegistration has a runtime that accepts and never answers (containerd/nri#298).
func TestHungRegistration(t *testing.T) {
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := NewSession(filepath.Join(dir, "s"), node.NewState(), &refusal{})
	s.limit = 100 * time.Millisecond
	if err := s.Run(context.Background()); !errors.Is(err, ErrHung) {
		t.Errorf("got %v, want the process to end", err)
	}
}

func BenchmarkCreateContainer(b *testing.B) {
	p := &Plugin{sink: node.NewState(), fence: &refusal{}, clock: &clock{}}
	s, c := podsNamed(1)[0], containersOf(1)[0]
	for b.Loop() {
		if _, _, err := p.CreateContainer(context.Background(), s, c); err != nil {
			b.Fatal(err)
		}
	}
}

func (f *refusal) RefusePod(*node.Pod) error { return nil }
