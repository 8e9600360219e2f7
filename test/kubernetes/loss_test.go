package kubernetes

import (
	"context"
	"fmt"
	"testing"
	"time"

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

// outcome is what came of the short Jobs.
type outcome struct{ Completed, Unknown, Failed int } // Jobs, pods, and failures that Jobs counted

// shorts runs the Jobs while containerd is restarted, and counts what came of it. None takes longer than three minutes,
// unless a container hangs because containerd went down while it was created (containerd#10437).
func shorts(ctx context.Context, t *testing.T, c *kube.Cluster, prefix string, restart func(i int) error) (o outcome) {
	t.Helper()
	var all []string
	for i := range shortJobs {
		all = append(all, shortJob(prefix, i))
	}
	check(t, c.Apply(ctx, all...))
	for i := range shortRestarts {
		check(t, restart(i))
	}
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for i := range shortJobs {
		name := fmt.Sprintf("%s-%d", prefix, i)
		j, err := c.WaitJob(limited, "default", name)
		if limited.Err() != nil {
			j, err = c.Job(ctx, "default", name) // as it is
		}
		check(t, err)
		o.Failed += j.Status.Failed
		if j.Is("Complete") {
			o.Completed++
		} else {
			t.Logf("Job %s did not complete: %+v", name, j.Status)
		}
	}
	pods, err := c.Pods(ctx, "default", "run="+prefix)
	check(t, err)
	for _, p := range pods {
		for _, end := range p.Ends() {
			if end.Reason == "Unknown" || end.Reason == "ContainerStatusUnknown" || end.ExitCode == 255 {
				o.Unknown++
				t.Logf("%s: %+v", p.Metadata.Name, end)
				break
			}
		}
	}
	check(t, c.Delete(ctx, "default", "jobs", "--selector=run="+prefix))
	return o
}

// TestKubernetes_e_ShortJobs has 30 Jobs run and end while containerd is restarted ten times: through the gate none of them
// notices.
func TestKubernetes_e_ShortJobs(t *testing.T) {
	ctx, c := quiesced(t)
	before := restarts(ctx, t, c)
	o := shorts(ctx, t, c, "gated", func(i int) error {
		name := fmt.Sprintf("short-v%d", i)
		if _, err := c.Installer(ctx, "install", "--handler", name, "--runtime-type", "io.containerd.runc.v2"); err != nil {
			return err
		}
		_, err := c.WaitPhase(ctx, name, "live")
		return err
	})
	n := restarts(ctx, t, c) - before
	t.Logf("through the gate: %d restarts, %+v", n, o)
	if want := (outcome{Completed: shortJobs}); o != want || n != shortRestarts {
		t.Errorf("%+v, %d restarts; want %+v and %d", o, n, want, shortRestarts)
	}
}

// TestKubernetes_e_Plain is what the same costs with plain restarts: it is printed, not judged.
func TestKubernetes_e_Plain(t *testing.T) {
	ctx, c := plain(t)
	o := shorts(ctx, t, c, "plain", func(int) error {
		if _, err := c.Exec(ctx, "sleep", "2"); err != nil {
			return err
		}
		return c.RestartContainerd(ctx)
	})
	t.Logf("with systemctl restart: %d Jobs, %d restarts, %+v", shortJobs, shortRestarts, o)
}
