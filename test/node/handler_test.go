package node_test

import (
	"context"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/node"
)

// handlers are two handlers whose shim is a copy of containerd's own under another name.
const handlers = `
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.named]
  runtime_type = 'io.containerd.foo.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.absolute]
  runtime_type = '/opt/x/containerd-shim-foo-v2'
`

// TestHandler adds handlers with shims of other names to a running node, as an installer would.
func TestHandler(t *testing.T) {
	ctx := budget(t)
	n := node.New(t, node.Config{Name: "handler"})
	addHandlers(ctx, t, n)
	for _, handler := range []string{"named", "absolute"} {
		t.Run(handler, func(t *testing.T) { testHandler(t, n, handler) })
	}
}

func addHandlers(ctx context.Context, t *testing.T, n *node.Node) {
	t.Helper()
	config, err := n.ReadFile("/etc/containerd/config.toml")
	if err != nil {
		t.Fatal(err)
	}
	shim, err := n.ReadFile("/usr/local/bin/containerd-shim-runc-v2")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"/usr/local/bin/containerd-shim-foo-v2": shim,
		"/opt/x/containerd-shim-foo-v2":         shim,
		"/etc/containerd/config.toml":           append(config, handlers...),
	} {
		if err := n.WriteFile(name, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.RestartContainerd(ctx); err != nil {
		t.Fatal(err)
	}
}

// testHandler takes a pod of the handler through a restart of containerd to its exit code and its removal.
func testHandler(t *testing.T, n *node.Node, handler string) {
	ctx := budget(t)
	c := node.Shell(`until [ -e /share/go ]; do sleep 0.02; done; exit 7`)
	c.Mounts = []node.Mount{{Host: "/var/lib/" + handler, Container: "/share"}}
	if err := n.WriteFile("/var/lib/"+handler+"/stay", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	pod, err := n.StartPod(ctx, node.Pod{Handler: handler, Containers: []node.Container{c}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.RestartContainerd(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err := pod.Status(ctx, "main"); err != nil || s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after the restart: %v, %v", s, err)
	}
	out, err := n.Exec(ctx, "pgrep", "-f", "-a", "containerd-shim-foo-v2.*"+pod.SandboxID)
	if err != nil {
		t.Errorf("the pod's shim: %s, %v", out, err)
	}
	if err := n.WriteFile("/var/lib/"+handler+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := pod.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err := pod.Status(ctx, "main"); err != nil || s.GetExitCode() != 7 || s.GetReason() != "Error" {
		t.Errorf("exit: %v, %v", s, err)
	}
	mustRemove(t, n, pod)
	if out, err := n.Exec(ctx, "pgrep", "-f", "-a", "containerd-shim-foo-v2.*"+pod.SandboxID); err == nil {
		t.Errorf("a shim is left: %s", out)
	}
}
