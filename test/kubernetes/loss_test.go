package kubernetes

import (
	"context"
	"fmt"
	"testing"

	"quiesce/test/kube"
	"quiesce/test/node"
)

// Figures of the test of short Jobs.
const (
	shortJobs     = 30
	shortRestarts = 10
)

// shortJob is a Job whose pod ends after some seconds; its containers end half a second one after the other.
func shortJob(prefix string, i int) string {
	containers := ""
	for j := range 2 {
		containers += fmt.Sprintf("        - { name: c%d, image: %q, command: [sleep, \"%d.%d\"] }\n", j, node.BusyboxImage, 2+i*7%40, (i*3+j*5)%10)
	}
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: { name: %[1]s-%[2]d, namespace: default, labels: { run: %[1]s } }
spec:
  backoffLimit: 3
  template:
    metadata: { labels: { run: %[1]s } }
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 5
      containers:
%[3]s`, prefix, i, containers)
}

// shorts runs the Jobs while containerd is restarted, and counts what came of it.
func shorts(ctx context.Context, t *testing.T, c *kube.Cluster, prefix string, restart func(i int) error) (unknown, failed int) {
	t.Helper()
	var all []string
	for i := range shortJobs {
		all = append(all, shortJob(prefix, i))
	}
	check(t, c.Apply(ctx, all...))
	for i := range shortRestarts {
		check(t, restart(i))
	}
	for i := range shortJobs {
		j, err := c.WaitJob(ctx, "default", fmt.Sprintf("%s-%d", prefix, i))
		check(t, err)
		failed += j.Status.Failed
		if !j.Is("Complete") {
			t.Errorf("Job %s did not complete: %+v", j.Metadata.Name, j.Status)
		}
	}
	pods, err := c.Pods(ctx, "default", "run="+prefix)
	check(t, err)
	for _, p := range pods {
		for _, end := range p.Ends() {
			if end.Reason == "Unknown" || end.Reason == "ContainerStatusUnknown" || end.ExitCode == 255 {
				unknown++
				t.Logf("%s: %+v", p.Metadata.Name, end)
				break
			}
		}
	}
	check(t, c.Delete(ctx, "default", "jobs", "--selector=run="+prefix))
	return unknown, failed
}

// TestKubernetes_e_ShortJobs has 30 Jobs run and end while containerd is restarted ten times: through the gate none of them
// notices.
func TestKubernetes_e_ShortJobs(t *testing.T) {
	ctx, c := quiesced(t)
	before := restarts(ctx, t, c)
	unknown, failed := shorts(ctx, t, c, "gated", func(i int) error {
		name := fmt.Sprintf("short-v%d", i)
		if _, err := c.Installer(ctx, "install", "--handler", name, "--runtime-type", "io.containerd.runc.v2"); err != nil {
			return err
		}
		_, err := c.WaitPhase(ctx, name, "live")
		return err
	})
	n := restarts(ctx, t, c) - before
	t.Logf("through the gate: %d Jobs, %d restarts, %d pods Unknown, %d failures", shortJobs, n, unknown, failed)
	if unknown > 0 || failed > 0 || n != shortRestarts {
		t.Errorf("%d pods Unknown, %d Job failures, %d restarts; want 0, 0 and %d", unknown, failed, n, shortRestarts)
	}
}

// TestKubernetes_e_Plain is what the same costs with plain restarts: it is printed, not judged.
func TestKubernetes_e_Plain(t *testing.T) {
	ctx, c := plain(t)
	unknown, failed := shorts(ctx, t, c, "plain", func(int) error {
		if _, err := c.Exec(ctx, "sleep", "2"); err != nil {
			return err
		}
		return c.RestartContainerd(ctx)
	})
	t.Logf("with systemctl restart: %d Jobs, %d restarts, %d pods Unknown, %d failures", shortJobs, shortRestarts, unknown, failed)
}
