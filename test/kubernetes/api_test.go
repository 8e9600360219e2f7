package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"quiesce/test/kube"
	"quiesce/test/node"
)

// sidecarPod has a sidecar that only the kubelet knows as one.
const sidecarPod = `
apiVersion: v1
kind: Pod
metadata: { name: i-sidecar, namespace: default }
spec:
  terminationGracePeriodSeconds: 33
  initContainers:
    - { name: proxy, image: "` + node.BusyboxImage + `", restartPolicy: Always, command: [sh, -c, "trap 'exit 0' TERM; sleep 1000000 & wait"] }
  containers:
    - { name: main, image: "` + node.BusyboxImage + `", command: [sh, -c, "trap 'exit 0' TERM; sleep 1000000 & wait"] }
`

// harmlessJob is a Job that could be an installer as far as CRI tells while it starts.
func harmlessJob(name string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: { name: %s, namespace: default }
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers: [{ name: main, image: %q, command: [sleep, "1000"] }]
`, name, node.BusyboxImage)
}

// TestKubernetes_i_KubeletTells compares what quiesce knows with the kubelet's pods API and without. The annotations of the
// kubelet are there in both cases.
func TestKubernetes_i_KubeletTells(t *testing.T) {
	ctx, c := quiesced(t)
	const config = "/etc/quiesce/config.toml"
	old, err := c.ReadFile(config)
	check(t, err)
	check(t, c.Apply(ctx, sidecarPod, harmlessJob("i-harmless")))
	_, err = c.WaitPod(ctx, "default", "i-sidecar", "Running")
	check(t, err)
	check(t, c.Until(ctx, "the Job's pod runs", func(ctx context.Context) (bool, error) {
		pods, err := c.JobPods(ctx, "default", "i-harmless")
		return err == nil && len(pods) == 1 && pods[0].Status.Phase == "Running", nil
	}))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		check(t, c.WriteFile(config, old, 0o644))
		_, err := c.Exec(ctx, "systemctl", "restart", "quiesce.service")
		check(t, err)
		check(t, c.Delete(ctx, "default", "pod/i-sidecar", "pod/i-slow", "job/i-harmless"))
	})

	stopInFlight(ctx, t, c)
	if line := planned(ctx, t, c); !strings.Contains(line, "main > proxy") || !strings.Contains(line, "33s") {
		t.Errorf("the plan does not know the sidecar or the grace: %s", line)
	}
	s, err := c.Status(ctx)
	check(t, err)
	if len(s.Installers) != 0 {
		t.Errorf("a harmless Job counts: %+v", s.Installers)
	}

	check(t, c.WriteFile(config, append([]byte("podsSocket = ''\nundecidedTimeout = '5s'\n"), old...), 0o644))
	_, err = c.Exec(ctx, "sh", "-c", "rm -f /run/quiesce/pods.json && systemctl restart quiesce.service")
	check(t, err)
	if line := planned(ctx, t, c); !strings.Contains(line, "main,proxy") && !strings.Contains(line, "proxy,main") || !strings.Contains(line, "33s") {
		t.Errorf("without the pods API: %s", line)
	}
	_, err = c.Installer(ctx, "install", "--handler", "absent-v1", "--runtime-type", "io.containerd.runc.v2")
	check(t, err)
	_, err = c.WaitPhase(ctx, "absent-v1", "live")
	check(t, err)
}

// planned is the line of the plan about the pod with the sidecar.
func planned(ctx context.Context, t *testing.T, c *kube.Cluster) string {
	t.Helper()
	out, err := c.Quiesce(ctx, "plan")
	check(t, err)
	for line := range strings.Lines(out) {
		if strings.Contains(line, "default/i-sidecar") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("the plan does not name the pod:\n%s", out)
	return ""
}

// stopInFlight deletes a pod that takes its time, and stages a change meanwhile: it waits.
func stopInFlight(ctx context.Context, t *testing.T, c *kube.Cluster) {
	t.Helper()
	check(t, c.Apply(ctx, strings.Replace(kube.PodYAML("i-slow", "", "trap '' TERM; while :; do sleep 1; done"),
		"terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: 8", 1)))
	_, err := c.WaitPod(ctx, "default", "i-slow", "Running")
	check(t, err)
	deleted := time.Now()
	check(t, c.Delete(ctx, "default", "pod/i-slow"))
	_, err = c.Installer(ctx, "install", "--handler", "stop-v1", "--runtime-type", "io.containerd.runc.v2")
	check(t, err)
	waitBlocked(ctx, t, c, "stop in flight", "default/i-slow")
	_, err = c.WaitPhase(ctx, "stop-v1", "live")
	check(t, err)
	s, err := c.Status(ctx)
	check(t, err)
	if waited := s.LastRestart.Began.Sub(deleted); waited < 8*time.Second {
		t.Errorf("containerd was restarted %v after the pod was deleted; its grace is 8 s", waited)
	}
}
