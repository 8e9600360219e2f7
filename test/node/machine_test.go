package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/node"
)

// TestPower switches a node off in both ways and on again, and looks at its disk in between.
func TestPower(t *testing.T) {
	ctx := budget(t)
	n := node.New(t, node.Config{Name: "power", Files: map[string]node.File{
		"/etc/systemd/system/last.service": {Content: "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n" +
			"ExecStop=/bin/sh -c 'systemctl is-system-running >/var/last; exit 0'\n[Install]\nWantedBy=multi-user.target\n"},
	}, Enable: []string{"last.service"}})
	if _, err := n.StartPod(ctx, node.Pod{Name: "victim", Containers: []node.Container{{Command: []string{"sleep", "1000"}}}}); err != nil {
		t.Fatal(err)
	}
	freeze(t, n)
	if err := n.PowerCut(ctx); err != nil {
		t.Fatal(err)
	}
	if n.Running() {
		t.Error("the node runs without power")
	}
	if _, err := n.Exec(ctx, "true"); err == nil {
		t.Error("a program ran without power")
	}
	if _, err := n.ReadFile("/var/last"); err == nil {
		t.Error("the power cut was an orderly shutdown")
	}
	if err := n.WriteFile("/etc/offline", []byte("yes"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if out, err := n.Exec(ctx, "cat", "/etc/offline"); err != nil || out != "yes" {
		t.Errorf("file written while off: %q, %v", out, err)
	}
	checkVictim(t, n)
	if err := n.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if data, err := n.ReadFile("/var/last"); err != nil || string(data) != "stopping\n" {
		t.Errorf("ExecStop at the shutdown: %q, %v", data, err)
	}
	if journal, err := n.Journal(ctx); err != nil || strings.Count(journal, "Startup finished") != 2 {
		t.Errorf("the journal does not have two boots: %v", err)
	}
}

// freeze freezes the containers of the node, which must not save them from a power cut.
func freeze(t *testing.T, n *node.Node) {
	t.Helper()
	_, err := n.Exec(budget(t), "sh", "-c",
		`for f in $(find /sys/fs/cgroup -path '*besteffort*' -name freezer.state -o -path '*besteffort*' -name cgroup.freeze); do
		case $f in *state) echo FROZEN >$f;; *) echo 1 >$f;; esac; done`)
	if err != nil {
		t.Fatal(err)
	}
}

// A process that is frozen and was killed does not keep a node from going off.
func TestShutdownWithAFrozenProcess(t *testing.T) {
	t.Parallel()
	ctx := budget(t)
	n := node.New(t, node.Config{Name: "frozen-off"})
	_, err := n.Exec(ctx, "systemd-run", "--unit=stuck", "-p", "TimeoutStopSec=1", "sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Exec(ctx, "sh", "-c", `p=$(systemctl show -P MainPID stuck)
		if [ -d /sys/fs/cgroup/freezer ]; then d=/sys/fs/cgroup/freezer/stuck f=freezer.state on=FROZEN
		else d=/sys/fs/cgroup/system.slice/stuck.service f=cgroup.freeze on=1; fi
		mkdir -p $d && echo $p >$d/cgroup.procs && echo $on >$d/$f`)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}

// checkVictim expects the pod that the power cut hit to be known and exited, and a new one to run.
func checkVictim(t *testing.T, n *node.Node) {
	t.Helper()
	ctx := budget(t)
	cri, err := n.CRI(ctx)
	if err != nil {
		t.Fatal(err)
	}
	list, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil || len(list.GetContainers()) != 1 || list.GetContainers()[0].GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("containers after the power cut: %v, %v", list.GetContainers(), err)
	}
	if _, err := n.RunPod(ctx, node.Pod{Containers: []node.Container{node.Shell("true")}}); err != nil {
		t.Error(err)
	}
}

// TestTwoNodes runs two nodes at once, one with systemd's cgroup driver, and expects nothing of them to be left.
func TestTwoNodes(t *testing.T) {
	ctx := budget(t)
	kit, err := node.Prepare(ctx)
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]*node.Node, 2)
	var group errgroup.Group
	for i := range nodes {
		group.Go(func() error {
			var err error
			nodes[i], err = node.Boot(ctx, node.Config{Kit: kit, Name: "pair", SystemdCgroup: i == 1})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		pod, err := n.RunPod(ctx, node.Pod{Name: "same", Containers: []node.Container{node.Shell("exit 7")}})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := pod.Status(ctx, "main"); err != nil || s.GetExitCode() != 7 {
			t.Errorf("%s: %v, %v", n.ID, s, err)
		}
		if err := pod.Remove(ctx); err != nil {
			t.Error(err)
		}
		if _, err := n.StartPod(ctx, node.Pod{Containers: []node.Container{{Command: []string{"sleep", "1000"}}}}); err != nil {
			t.Error(err)
		}
	}
	for _, n := range nodes {
		for range 2 {
			if err := n.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		checkNothingLeft(t, kit, n.ID)
	}
}

// checkNothingLeft looks for a trace of a node on this machine.
func checkNothingLeft(t *testing.T, kit *node.Kit, id string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(id)) {
		t.Errorf("mounts are left: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(kit.Dir(), "nodes", id)); err == nil {
		t.Error("the directory is left")
	}
	for _, pattern := range []string{"/sys/fs/cgroup/" + id, "/sys/fs/cgroup/*/" + id} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
			t.Errorf("cgroups are left: %v, %v", found, err)
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range processes {
		cgroup, _ := os.ReadFile(dir + "/cgroup")
		status, _ := os.ReadFile(dir + "/status")
		// A zombie is this machine's init's to collect.
		if bytes.Contains(cgroup, []byte(id)) && !bytes.Contains(status, []byte("State:\tZ")) {
			t.Errorf("a process is left: %.200s", status)
		}
	}
}

// TestSweep kills a test process that has booted a node and expects the next Prepare to remove the node.
func TestSweep(t *testing.T) {
	ctx := budget(t)
	if os.Getenv("NODE_TEST_ORPHAN") != "" {
		n, err := node.Boot(ctx, node.Config{Name: "orphan"})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(n.ID); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		return
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSweep$")
	cmd.Env = append(os.Environ(), "NODE_TEST_ORPHAN=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	if err := json.NewDecoder(out).Decode(&id); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	kit, err := node.Prepare(ctx)
	if err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, kit, id)
}

// TestFailedBoot expects a boot that fails to say why and to leave nothing.
func TestFailedBoot(t *testing.T) {
	kit, err := node.Prepare(budget(t))
	if err != nil {
		t.Fatal(err)
	}
	before := nodeDirs(t, kit)
	_, err = node.Boot(budget(t), node.Config{Kit: kit, Name: "broken", Enable: []string{"bad.service"}, Files: map[string]node.File{
		"/etc/systemd/system/bad.service": {Content: "[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"},
	}})
	if err == nil || !strings.Contains(err.Error(), "failed units: bad.service") {
		t.Errorf("error: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := node.Boot(short, node.Config{Kit: kit, Name: "broken"}); err == nil {
		t.Error("booted within 200 ms")
	}
	if after := nodeDirs(t, kit); after != before {
		t.Errorf("directories: %s, before %s", after, before)
	}
}

// nodeDirs lists the directories of the nodes of this test.
func nodeDirs(t *testing.T, kit *node.Kit) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(kit.Dir(), "nodes", "quiesce-broken-*"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(dirs, " ")
}
