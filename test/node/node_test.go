package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/node"
)

// budget is a context that ends long before the test binary's own time limit.
func budget(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestNode shares one node among the tests that leave it as it was.
func TestNode(t *testing.T) {
	n := node.New(t, node.Config{
		Programs: map[string]string{"./test/node/pause": "/opt/quiesce/pause"},
		Files:    map[string]node.File{"/etc/quiesce/hello": {Content: "hello\n", Mode: 0o600}},
		Images:   []node.Image{{Name: "localhost/tool:1", Entrypoint: []string{"/bin/sh", "-c", "exit 3"}, Files: map[string]string{"/opt/doc.go": "doc.go"}}},
	})
	for name, test := range map[string]func(*testing.T, *node.Node){
		"exec":           testExec,
		"files":          testFiles,
		"exit code":      testExitCode,
		"init container": testInitContainer,
		"image":          testImage,
		"stop":           testStop,
		"restart":        testRestart,
		"host":           testHost,
		"isolated":       testIsolated,
	} {
		t.Run(name, func(t *testing.T) { test(t, n) })
	}
}

func testExec(t *testing.T, n *node.Node) {
	ctx := budget(t)
	out, err := n.Exec(ctx, "cat", "/proc/1/comm", "/proc/self/cgroup")
	if err != nil || !strings.HasPrefix(out, "systemd\n") || strings.Contains(out, n.ID) {
		t.Errorf("cat: %q, %v; want systemd and no cgroup outside the node", out, err)
	}
	_, err = n.Exec(ctx, "sh", "-c", "echo oops >&2; exit 7")
	var exit *node.ExitError
	if !errors.As(err, &exit) || exit.Code != 7 || exit.Stderr != "oops\n" {
		t.Errorf("exit 7: %#v", err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := n.Exec(short, "sleep", "300.25"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sleep: %v; want the context's error", err)
	}
	if out, err := n.Exec(ctx, "pgrep", "-f", "sleep 300.25"); err == nil {
		t.Errorf("the canceled program still runs: %s", out)
	}
}

func testFiles(t *testing.T, n *node.Node) {
	ctx := budget(t)
	if data, err := n.ReadFile("/etc/quiesce/hello"); err != nil || string(data) != "hello\n" {
		t.Errorf("configured file: %q, %v", data, err)
	}
	if _, err := n.Exec(ctx, "test", "-x", "/opt/quiesce/pause"); err != nil {
		t.Errorf("configured program: %v", err)
	}
	if err := n.WriteFile("/opt/new/script", []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := n.Exec(ctx, "/opt/new/script"); err != nil || out != "ran\n" {
		t.Errorf("script: %q, %v", out, err)
	}
	if err := n.WriteFile("/var/run/escape", nil, 0o644); err == nil {
		t.Error("a path through an absolute link was written outside the node")
	}
	if conn, err := n.Dial(ctx, "/run/dbus/system_bus_socket"); err != nil {
		t.Error(err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func testExitCode(t *testing.T, n *node.Node) {
	ctx := budget(t)
	pod, err := n.RunPod(ctx, node.Pod{
		Labels: node.JobLabels("seven"), Annotations: map[string]string{"quiesce.test/a": "b"},
		Containers: []node.Container{node.Shell("echo out; exit 7"), node.Shell("sleep 0.2")},
	})
	if err != nil {
		t.Fatal(err)
	}
	status, err := pod.Statuses(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s := status["main"]; s.GetExitCode() != 7 || s.GetReason() != "Error" || s.GetFinishedAt() == 0 {
		t.Errorf("main: %v", s)
	}
	if s := status["main1"]; s.GetExitCode() != 0 || s.GetReason() != "Completed" {
		t.Errorf("main1: %v", s)
	}
	if log, err := pod.Log("main"); err != nil || log != "out\n" {
		t.Errorf("log: %q, %v", log, err)
	}
	mustRemove(t, n, pod)
}

// mustRemove removes a pod and checks that CRI and the cgroups forgot it.
func mustRemove(t *testing.T, n *node.Node, pod *node.RunningPod) {
	t.Helper()
	ctx := budget(t)
	if err := pod.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	cri, err := n.CRI(ctx)
	if err != nil {
		t.Fatal(err)
	}
	list, err := cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: pod.SandboxID}})
	if err != nil || len(list.GetItems()) != 0 {
		t.Errorf("sandboxes after the removal: %v, %v", list.GetItems(), err)
	}
}

func testInitContainer(t *testing.T, n *node.Node) {
	ctx := budget(t)
	share := []node.Mount{{Host: "/var/lib/share", Container: "/share"}}
	write, read := node.Shell("echo from-init >/share/x"), node.Shell("cat /share/x >/share/y")
	write.Mounts, read.Mounts = share, share
	if _, err := n.Exec(ctx, "mkdir", "-p", "/var/lib/share"); err != nil {
		t.Fatal(err)
	}
	pod, err := n.RunPod(ctx, node.Pod{InitContainers: []node.Container{write}, Containers: []node.Container{read}})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := n.ReadFile("/var/lib/share/y"); err != nil || string(data) != "from-init\n" {
		t.Errorf("file: %q, %v", data, err)
	}
	mustRemove(t, n, pod)
	_, err = n.StartPod(ctx, node.Pod{InitContainers: []node.Container{node.Shell("exit 4")}})
	if err == nil || !strings.Contains(err.Error(), "exit code 4") {
		t.Errorf("failed init container: %v", err)
	}
}

func testImage(t *testing.T, n *node.Node) {
	ctx := budget(t)
	if err := n.ImportImage(ctx, node.Image{Name: "localhost/late:1", Entrypoint: []string{"/bin/false"}}); err != nil {
		t.Fatal(err)
	}
	pod, err := n.RunPod(ctx, node.Pod{Containers: []node.Container{
		{Image: "localhost/tool:1"},
		{Image: "localhost/tool:1", Command: []string{"cat", "/opt/doc.go"}, Env: map[string]string{"A": "b"}},
		{Image: "localhost/late:1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := pod.Status(ctx, "main"); err != nil || s.GetExitCode() != 3 {
		t.Errorf("entrypoint: %v, %v", s, err)
	}
	if s, err := pod.Status(ctx, "main2"); err != nil || s.GetExitCode() != 1 {
		t.Errorf("image imported late: %v, %v", s, err)
	}
	want, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if log, err := pod.Log("main1"); err != nil || log != string(want) {
		t.Errorf("file of the image: %q, %v", log, err)
	}
	mustRemove(t, n, pod)
}

func testStop(t *testing.T, n *node.Node) {
	ctx := budget(t)
	trap := node.Shell(`trap "[ -e /tmp/hook ] && exit 9" USR1; echo ready; while :; do sleep 0.05; done`)
	trap.StopSignal, trap.PreStop = "SIGUSR1", []string{"/bin/sh", "-c", "echo hook >/tmp/hook"}
	pod, err := n.StartPod(ctx, node.Pod{Containers: []node.Container{trap, {Command: []string{"sleep", "1000"}}}, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	waitLog(t, pod, "main", "ready")
	if err := pod.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err := pod.Status(ctx, "main"); err != nil || s.GetExitCode() != 9 {
		t.Errorf("stop signal: %v, %v", s, err)
	}
	if s, err := pod.Status(ctx, "main1"); err != nil || s.GetExitCode() != 137 {
		t.Errorf("deaf container: %v, %v", s, err)
	}
	mustRemove(t, n, pod)
}

// waitLog waits until a container has printed text.
func waitLog(t *testing.T, pod *node.RunningPod, container, text string) {
	t.Helper()
	ctx, tick := budget(t), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		if log, err := pod.Log(container); err == nil && strings.Contains(log, text) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s never printed %q", container, text)
		case <-tick.C:
		}
	}
}

// testRestart starts a pod while containerd is being restarted over and over: the driver gets it done.
func testRestart(t *testing.T, n *node.Node) {
	ctx := budget(t)
	var group errgroup.Group
	group.Go(func() error {
		for range 3 {
			if err := n.RestartContainerd(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	pod, err := n.StartPod(ctx, node.Pod{Grace: -1, Containers: []node.Container{node.Shell("sleep 1000")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if s, err := pod.Status(ctx, "main"); err != nil || s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after the restarts: %v, %v", s, err)
	}
	if err := pod.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	mustRemove(t, n, pod)
}

// testHost runs what an installer does: a privileged container of the host's pid namespace.
func testHost(t *testing.T, n *node.Node) {
	ctx := budget(t)
	c := node.Shell("cat /proc/1/comm; ls /host/etc/containerd; touch /host/opt/mark")
	c.Privileged, c.Mounts = true, []node.Mount{{
		Host: "/", Container: "/host", Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
	}}
	pod, err := n.RunPod(ctx, node.Pod{HostPID: true, HostNetwork: true, Containers: []node.Container{c}})
	if err != nil {
		t.Fatal(err)
	}
	if log, err := pod.Log("main"); err != nil || log != "systemd\nconfig.toml\n" {
		t.Errorf("log: %q, %v", log, err)
	}
	if _, err := n.ReadFile("/opt/mark"); err != nil {
		t.Error(err)
	}
	mustRemove(t, n, pod)
}

// testIsolated compares the node's namespaces with those of this machine.
func testIsolated(t *testing.T, n *node.Node) {
	for _, ns := range []string{"pid", "net", "ipc", "uts", "mnt", "cgroup"} {
		inside, err := n.Exec(budget(t), "readlink", "/proc/1/ns/"+ns)
		if err != nil {
			t.Fatal(err)
		}
		outside, err := os.Readlink(filepath.Join("/proc/self/ns", ns))
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(inside) == outside {
			t.Errorf("the node shares the %s namespace", ns)
		}
	}
}
