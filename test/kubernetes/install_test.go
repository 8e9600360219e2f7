package kubernetes

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"quiesce/test/kube"
	"quiesce/test/lab"
)

// TestKubernetes_a_AsReported reproduces the report on a plain node.
func TestKubernetes_a_AsReported(t *testing.T) {
	ctx, c := plain(t)
	o, err := Story{Dir: t.TempDir(), Say: t.Logf}.Naive(ctx, c)
	check(t, err)
	if err := (Report{Naive: o}).Reproduced(); err != nil {
		t.Error(err)
	}
}

// TestKubernetes_a_WithQuiesce is the story of `make demo-kubernetes`.
func TestKubernetes_a_WithQuiesce(t *testing.T) {
	ctx, c := quiesced(t)
	var r Report
	seen, err := Story{Dir: t.TempDir(), Say: t.Logf}.Quiesce(ctx, c, &r)
	check(t, err)
	t.Logf("%+v %+v", r, seen)
	if err := r.Broken(seen); err != nil {
		t.Error(err)
	}
}

func tenHandlers() (names []string) {
	for i := range 10 {
		names = append(names, fmt.Sprintf("ten-v%d", i))
	}
	return names
}

// TestKubernetes_b_TenJobsAtOnce runs ten reported Jobs with nothing changed but their image.
func TestKubernetes_b_TenJobsAtOnce(t *testing.T) {
	ctx, c := quiesced(t)
	before := restarts(ctx, t, c)
	var jobs []kube.Reported
	for _, h := range tenHandlers() {
		jobs = append(jobs, kube.Reported{Operation: "install", Shim: h, Image: lab.InstallerImage})
	}
	check(t, c.Report(ctx, jobs...))
	outcomes := make([]kube.Outcome, len(jobs))
	var g errgroup.Group
	for i, j := range jobs {
		g.Go(func() (err error) {
			if outcomes[i], err = c.Outcome(ctx, "default", j.Name()); err == nil {
				_, err = c.WaitPhase(ctx, j.Shim, "live")
			}
			return err
		})
	}
	check(t, g.Wait())
	pods, completed := 0, 0
	for i, o := range outcomes {
		pods += o.Pods
		if o.Clean() {
			completed++
		} else {
			t.Errorf("%s: %s", jobs[i].Name(), o)
		}
	}
	n := restarts(ctx, t, c) - before
	t.Logf("%d Jobs: %d pods, %d Completed, %d restart(s) of containerd", len(jobs), pods, completed, n)
	if pods != 10 || n > 2 {
		t.Errorf("%d pods and %d restarts, want 10 and at most 2", pods, n)
	}
}

// TestKubernetes_c_Uninstall removes a handler with the reported Job, its image changed: while a pod of the RuntimeClass
// runs, when it is gone, and once more.
func TestKubernetes_c_Uninstall(t *testing.T) {
	ctx, c := quiesced(t)
	const handler = "c-v1"
	install := kube.Reported{Operation: "install", Shim: handler, Image: lab.InstallerImage}
	remove := kube.Reported{Operation: "uninstall", Shim: handler, Image: lab.InstallerImage}
	check(t, c.Report(ctx, install))
	_, err := c.WaitPhase(ctx, handler, "live")
	check(t, err)
	class := fmt.Sprintf("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: { name: %s }\nhandler: %[1]s\n", handler)
	check(t, c.Apply(ctx, class, kube.PodYAML("c-app", handler, "exec sleep 1000000")))
	app, err := c.WaitPod(ctx, "default", "c-app", "Running")
	check(t, err)

	before := restarts(ctx, t, c)
	uninstall(ctx, t, c, remove)
	waitBlocked(ctx, t, c, "pods use the handler", "c-app")
	steady(ctx, t, c, before)
	again, err := c.Pod(ctx, "default", "c-app")
	check(t, err)
	if got, want := again.Status.ContainerStatuses[0], app.Status.ContainerStatuses[0]; got.ContainerID != want.ContainerID || got.State.Running == nil || again.Restarts() != 0 {
		t.Errorf("the pod was touched: %+v, it was %+v", got, want)
	}
	check(t, c.Delete(ctx, "default", "pod/c-app"))
	_, err = c.WaitPhase(ctx, handler, "removed")
	check(t, err)
	uninstall(ctx, t, c, remove)
	if n := restarts(ctx, t, c) - before; n != 1 {
		t.Errorf("containerd was restarted %d times, want once: for the removal that there was", n)
	}
}
