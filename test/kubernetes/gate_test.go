package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/test/kube"
)

// uninstall runs a reported uninstall Job to its end, from nothing.
func uninstall(ctx context.Context, t *testing.T, c *kube.Cluster, r kube.Reported) {
	t.Helper()
	check(t, c.Report(ctx, r))
	o, err := c.Outcome(ctx, "default", r.Name())
	check(t, err)
	if !o.Clean() {
		t.Errorf("%s: %s", r.Name(), o)
	}
	forget(ctx, t, c, r)
}

// forget deletes a Job, so that it can be made again.
func forget(ctx context.Context, t *testing.T, c *kube.Cluster, r kube.Reported) {
	t.Helper()
	ns := r.Namespace
	if ns == "" {
		ns = "default"
	}
	_, err := c.Kubectl(ctx, "--namespace", ns, "delete", "job", r.Name(), "--cascade=foreground", "--wait", "--timeout=60s")
	check(t, err)
}

// waitBlocked waits until the gate is kept closed for a reason, by someone whose name has a part.
func waitBlocked(ctx context.Context, t *testing.T, c *kube.Cluster, reason, who string) {
	t.Helper()
	var last string
	err := c.Until(ctx, "the gate is kept closed: "+reason+": "+who, func(ctx context.Context) (bool, error) {
		s, err := c.Status(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // asked again
		}
		last = fmt.Sprintf("%+v %+v", s.Gate, s.Pending)
		for _, b := range s.Gate.Blockers {
			if b.Reason == reason && slices.ContainsFunc(b.Who, func(w string) bool { return strings.Contains(w, who) }) {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatalf("%v; last %s", err, last)
	}
}

// steady checks for longer than the quiet period that containerd is not restarted.
func steady(ctx context.Context, t *testing.T, c *kube.Cluster, want int) {
	t.Helper()
	end := time.Now().Add(3 * time.Second)
	check(t, c.Until(ctx, "some time has passed", func(context.Context) (bool, error) { return time.Now().After(end), nil }))
	if n := restarts(ctx, t, c); n != want {
		t.Errorf("containerd was restarted %d times, want %d", n, want)
	}
}

// TestKubernetes_d_UnmodifiedJobsAreWaitedFor has a staged change wait for Jobs that know nothing of quiesce: their
// downloaders hang until they are let go.
func TestKubernetes_d_UnmodifiedJobsAreWaitedFor(t *testing.T) {
	ctx, c := quiesced(t)
	for i, j := range []kube.Reported{
		{Operation: "install", Shim: "d-v1"},
		{Operation: "install", Shim: "d-v1", Domain: "spinkube.dev", Namespace: "rcm"},
	} {
		t.Run(j.Domain+j.Namespace, func(t *testing.T) { unmodified(ctx, t, c, j, fmt.Sprintf("staged-v%d", i)) })
	}
}

// unmodified lets a Job hang, stages another handler, and lets the Job go.
func unmodified(ctx context.Context, t *testing.T, c *kube.Cluster, j kube.Reported, staged string) {
	if j.Namespace != "" {
		check(t, c.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: { name: "+j.Namespace+" }"))
	} else {
		j.Namespace = "default"
	}
	_, err := c.Exec(ctx, "systemctl", "kill", "--signal=STOP", "shims.service")
	check(t, err)
	before := restarts(ctx, t, c)
	check(t, c.Report(ctx, j))
	check(t, c.Until(ctx, "the downloader runs", func(ctx context.Context) (bool, error) {
		pods, err := c.JobPods(ctx, j.Namespace, j.Name())
		return err == nil && len(pods) == 1 && len(pods[0].Status.InitContainerStatuses) == 1 && pods[0].Status.InitContainerStatuses[0].State.Running != nil, nil
	}))
	_, err = c.Installer(ctx, "install", "--handler", staged, "--runtime-type", "io.containerd.runc.v2")
	check(t, err)
	waitBlocked(ctx, t, c, "installers in flight", j.Name())
	steady(ctx, t, c, before)
	_, err = c.Exec(ctx, "systemctl", "kill", "--signal=CONT", "shims.service")
	check(t, err)
	o, err := c.Outcome(ctx, j.Namespace, j.Name())
	check(t, err)
	t.Logf("the unmodified Job ended: %s", o)
	_, err = c.WaitPhase(ctx, staged, "live")
	check(t, err)
	s, err := c.Status(ctx)
	check(t, err)
	outside(ctx, t, c, j, s.LastRestart.Began)
}

// outside checks that a restart did not fall into the life of a Job's pod. Kubernetes tells whole seconds.
func outside(ctx context.Context, t *testing.T, c *kube.Cluster, j kube.Reported, restart time.Time) {
	t.Helper()
	pods, err := c.JobPods(ctx, j.Namespace, j.Name())
	check(t, err)
	for _, p := range pods {
		var end time.Time
		for _, e := range p.Ends() {
			end = e.FinishedAt
		}
		t.Logf("%s lived from %s to %s, quiesce restarted containerd at %s", p.Metadata.Name, p.Metadata.Created.Format(stamp), end.Format(stamp), restart.Format(stamp))
		if restart.After(p.Metadata.Created.Add(time.Second)) && restart.Before(end) {
			t.Errorf("quiesce restarted containerd while %s was in flight", p.Metadata.Name)
		}
	}
}
