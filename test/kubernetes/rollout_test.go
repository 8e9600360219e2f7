package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quiesce/test/kube"
	"quiesce/test/lab"
	"quiesce/test/node"
)

// pluginImage is what the DaemonSet delivers, in a version.
func pluginImage(version string) node.Image {
	return node.Image{
		Name: "localhost/quiesce:" + version, Entrypoint: []string{"/quiesce-installer"}, Scratch: true, Build: []string{"-ldflags=-X main.version=" + version},
		Programs: map[string]string{"/quiesce": "./plugin", "/quiesce-installer": "./installer"},
	}
}

// deliver applies manifests/base with an image and waits until the rollout is done and the host service is of that version.
func deliver(ctx context.Context, c *kube.Cluster, version string) error {
	var all []string
	for _, file := range []string{"namespace.yaml", "serviceaccount.yaml", "daemonset.yaml"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "manifests", "base", file))
		if err != nil {
			return err
		}
		all = append(all, strings.ReplaceAll(string(b), "example.invalid/quiesce:dev", "localhost/quiesce:"+version))
	}
	if err := c.Apply(ctx, all...); err != nil {
		return err
	}
	if out, err := c.Kubectl(ctx, "--namespace", "quiesce", "rollout", "status", "daemonset/quiesce", "--timeout", "120s"); err != nil {
		return fmt.Errorf("roll out %s: %w\n%s", version, err, out)
	}
	return c.Until(ctx, "quiesce "+version+" is synchronized", func(ctx context.Context) (bool, error) {
		s, err := c.Status(ctx)
		return err == nil && s.Version == version && s.NRI.Connected, nil
	})
}

// TestKubernetes_h_Rollout delivers quiesce by its DaemonSet and then the next version, while an installer is in flight and a
// pod is being stopped.
func TestKubernetes_h_Rollout(t *testing.T) {
	t.Parallel()
	ctx := limit(t)
	c := kube.New(t, kube.Options{
		Lab:    lab.Options{Name: "kube-h", NoHost: true, Shims: []string{shim}},
		Images: []node.Image{pluginImage("v1"), pluginImage("v2")},
	})
	before := restarts(ctx, t, c)
	check(t, deliver(ctx, c, "v1"))

	job := kube.Reported{Operation: "install", Shim: shim}
	_, err := c.Exec(ctx, "systemctl", "kill", "--signal=STOP", "shims.service")
	check(t, err)
	check(t, c.Report(ctx, job))
	check(t, c.Apply(ctx,
		kube.PodYAML("h-app", "", "exec sleep 1000000"),
		strings.Replace(kube.PodYAML("h-slow", "", "trap '' TERM; while :; do sleep 1; done"), "terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: 25", 1)))
	for _, name := range []string{"h-app", "h-slow"} {
		_, err := c.WaitPod(ctx, "default", name, "Running")
		check(t, err)
	}
	app, err := c.Pod(ctx, "default", "h-app")
	check(t, err)
	waitInFlight(ctx, t, c, job.Name())

	check(t, c.Delete(ctx, "default", "pod/h-slow"))
	rolling := make(chan error, 1)
	go func() { rolling <- deliver(ctx, c, "v2") }()
	worst := startPods(ctx, t, c, rolling)
	t.Logf("a pod of the default handler took at most %.1f s to run during the rollout", worst.Seconds())
	journal, err := c.Journal(ctx)
	check(t, err)
	t.Logf("registration with NRI waited for the stop in flight: %v", strings.Contains(journal, "registration with NRI waits"))
	waitInFlight(ctx, t, c, job.Name())
	again, err := c.Pod(ctx, "default", "h-app")
	check(t, err)
	if again.Status.ContainerStatuses[0].ContainerID != app.Status.ContainerStatuses[0].ContainerID {
		t.Error("a pod was touched")
	}
	if n := restarts(ctx, t, c); n != before {
		t.Errorf("containerd was restarted %d times", n-before)
	}
	if out, err := c.Quiesce(ctx, "report"); err == nil {
		t.Errorf("there was a drain:\n%s", out)
	}
}

// waitInFlight waits until the daemon takes a Job's pod for an installer.
func waitInFlight(ctx context.Context, t *testing.T, c *kube.Cluster, job string) {
	t.Helper()
	check(t, c.Until(ctx, job+" is known to be in flight", func(ctx context.Context) (bool, error) {
		s, err := c.Status(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // the daemon may be on its way
		}
		for _, i := range s.Installers {
			if strings.Contains(i.Pod, job) {
				return true, nil
			}
		}
		return false, nil
	}))
}

// startPods runs one pod after the other until done has a value, and says how long the slowest took.
func startPods(ctx context.Context, t *testing.T, c *kube.Cluster, done <-chan error) (worst time.Duration) {
	t.Helper()
	for i := 0; ; i++ {
		select {
		case err := <-done:
			check(t, err)
			return worst
		default:
		}
		name := fmt.Sprintf("h-%d", i)
		began := time.Now()
		check(t, c.Apply(ctx, kube.PodYAML(name, "", "exit 0")))
		_, err := c.WaitPod(ctx, "default", name, "Succeeded")
		check(t, err)
		worst = max(worst, time.Since(began))
	}
}
