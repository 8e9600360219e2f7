package kubernetes

import (
	"context"
	_ "embed" // manifests
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/test/drain"
	"quiesce/test/kube"
	"quiesce/test/lab"
	"quiesce/test/node"
)

//go:embed workloads.yaml
var workloads string

//go:embed static.yaml
var staticPod string

// victims are the logs of the workloads, in the order in which a drain stops them.
var victims = []string{"web", "batch", "db", "agent", "static"}

// drainable boots a cluster of its own with one of each: Deployment, StatefulSet, DaemonSet, Job and static pod.
func drainable(t *testing.T, name string, o kube.Options) (context.Context, *kube.Cluster) {
	t.Helper()
	ctx := limit(t)
	o.Lab.Name = name
	o.Images = []node.Image{{Name: drain.Image, Programs: map[string]string{"/victim": "./test/drain/victim"}}}
	o.Manifests = map[string]string{"static.yaml": staticPod}
	c := kube.New(t, o)
	check(t, c.Apply(ctx, workloads))
	back(ctx, t, c, time.Time{})
	return ctx, c
}

// back waits until every victim has been started anew since a time, and every pod is Running and ready. A pod that is
// Failed, then or at the end, is an error.
func back(ctx context.Context, t *testing.T, c *kube.Cluster, since time.Time) {
	t.Helper()
	began := time.Now()
	check(t, c.Until(ctx, "the victims run again", func(context.Context) (bool, error) { return startedSince(c, since), nil }))
	var last string
	err := c.Until(ctx, "all pods are Running", func(ctx context.Context) (bool, error) {
		pods, err := c.Pods(ctx, "", "")
		if err != nil || len(pods) != len(victims) {
			last = "not all pods are there"
			return false, nil //nolint:nilerr // the API server may be on its way
		}
		for _, p := range pods {
			ready, _ := p.Is("Ready")
			if p.Status.Phase == "Failed" {
				t.Errorf("pod %s is Failed: %+v", p.Metadata.Name, p.Status)
				return true, nil
			}
			if p.Status.Phase != "Running" || !ready || !runsSince(p, since) {
				last = p.Metadata.Name
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("%v: %s", err, last)
	}
	t.Logf("all pods were Running again after %.1f s", time.Since(began).Seconds())
}

// runsSince tells whether the API server knows that the pod's container was started since a time; it has whole seconds.
func runsSince(p kube.Pod, since time.Time) bool {
	r := p.Status.ContainerStatuses[0].State.Running
	return r != nil && !r.StartedAt.Before(since.Truncate(time.Second))
}

func startedSince(c *kube.Cluster, since time.Time) bool {
	for _, v := range victims {
		events, err := drain.Events(c.Lab, v)
		if err != nil || !slices.ContainsFunc(events, func(e drain.Event) bool { return e.What == "start" && e.At.After(since) }) {
			return false
		}
	}
	return true
}

// signals are the stop signals that a victim got since a time.
func signals(t *testing.T, c *kube.Cluster, victim string, since time.Time) (at []time.Time) {
	t.Helper()
	events, err := drain.Events(c.Lab, victim)
	check(t, err)
	for _, e := range events {
		if e.What == "terminated" && e.At.After(since) {
			at = append(at, e.At)
		}
	}
	return at
}

// report is what a reader of `quiesce report --output json` relies on.
type report struct {
	Phase, Trigger string
	Began          time.Time
	Steps          []struct{ Name string }
	Pods           []struct {
		Namespace, Name string
		Step            int
		Asked           time.Duration `json:"grace_asked"`
		Containers      []struct {
			Name, Outcome string
			Signal, Exit  time.Time
			HookError     string `json:"hook_error"`
		}
	}
	Notes []string
}

// wantDrained checks the last drain: since a time, every victim got one SIGTERM, in order, with its own grace, and ended
// by itself.
func wantDrained(ctx context.Context, t *testing.T, c *kube.Cluster, since time.Time, trigger string) {
	t.Helper()
	out, err := c.Quiesce(ctx, "report", "--output", "json")
	check(t, err)
	var r report
	check(t, json.Unmarshal([]byte(out), &r))
	if !r.Began.After(since) || !strings.Contains(r.Trigger, trigger) {
		t.Fatalf("the last drain began at %s, by %q: none since %s by %q", r.Began, r.Trigger, since, trigger)
	}
	asked := map[string]time.Duration{}
	for _, p := range r.Pods {
		name, _, _ := strings.Cut(p.Name, "-")
		asked[name] = p.Asked
		for _, ct := range p.Containers {
			t.Logf("%s/%s: step %d, grace %s, SIGTERM %s, exit %s: %s", p.Name, ct.Name, p.Step, p.Asked, ct.Signal.Format(stamp), ct.Exit.Format(stamp), ct.Outcome)
			if ct.Outcome != "exited" || ct.HookError != "" {
				t.Errorf("%s/%s: %s %s", p.Name, ct.Name, ct.Outcome, ct.HookError)
			}
		}
	}
	for name, want := range map[string]time.Duration{"web": 42 * time.Second, "db": 20 * time.Second, "agent": 30 * time.Second} {
		if asked[name] != want {
			t.Errorf("the grace of %s was taken to be %v, want %v", name, asked[name], want)
		}
	}
	wantOrder(t, c, since)
}

const stamp = "15:04:05.000"

// wantOrder checks what the victims wrote down.
func wantOrder(t *testing.T, c *kube.Cluster, since time.Time) {
	t.Helper()
	at := map[string]time.Time{}
	for _, v := range victims {
		got := signals(t, c, v, since)
		if len(got) != 1 {
			t.Fatalf("%s got %d SIGTERMs: %v", v, len(got), got)
		}
		at[v] = got[0]
	}
	for _, pair := range [][2]string{{"web", "db"}, {"db", "agent"}, {"batch", "agent"}, {"agent", "static"}} {
		if !at[pair[0]].Before(at[pair[1]]) {
			t.Errorf("%s was signalled at %s, %s at %s", pair[0], at[pair[0]].Format(stamp), pair[1], at[pair[1]].Format(stamp))
		}
	}
	events, err := drain.Events(c.Lab, "web")
	check(t, err)
	if !slices.ContainsFunc(events, func(e drain.Event) bool { return e.What == "hook" && e.At.After(since) && e.At.Before(at["web"]) }) {
		t.Error("the preStop hook of web did not run before its SIGTERM")
	}
}

// quiet checks for some time that the victims stay stopped.
func quiet(ctx context.Context, t *testing.T, c *kube.Cluster) {
	t.Helper()
	since := time.Now()
	end := since.Add(5 * time.Second)
	check(t, c.Until(ctx, "some time has passed", func(context.Context) (bool, error) { return time.Now().After(end), nil }))
	for _, v := range victims {
		events, err := drain.Events(c.Lab, v)
		check(t, err)
		if n := len(events); n > 0 && events[n-1].At.After(since) {
			t.Errorf("%s ran behind the fence: %+v", v, events[n-1])
		}
	}
}

// TestKubernetes_f_Drain drains the whole node in four ways, and everything comes back each time.
func TestKubernetes_f_Drain(t *testing.T) {
	t.Parallel()
	ctx, c := drainable(t, "kube-f", kube.Options{Lab: lab.Options{Node: node.Config{SystemdCgroup: true}}})
	systemctl := func(t *testing.T, args ...string) {
		t.Helper()
		_, err := c.Exec(ctx, append([]string{"systemctl"}, args...)...)
		check(t, err)
	}
	drainAll := func(t *testing.T) {
		t.Helper()
		_, err := c.Quiesce(ctx, "drain", "--all", "--yes")
		check(t, err)
	}
	t.Run("kubelet alive", func(t *testing.T) {
		began := time.Now()
		drainAll(t)
		wantDrained(ctx, t, c, began, "operator")
		quiet(ctx, t, c)
		resume(ctx, t, c)
	})
	t.Run("kubelet stopped first", func(t *testing.T) {
		began := time.Now()
		systemctl(t, "stop", "containerd.service")
		if out, err := c.Exec(ctx, "systemctl", "is-active", "kubelet.service"); strings.TrimSpace(out) != "inactive" {
			t.Errorf("the kubelet is %q: %v", strings.TrimSpace(out), err)
		}
		wantDrained(ctx, t, c, began, "stop of containerd.service")
		began = time.Now()
		systemctl(t, "start", "containerd.service")
		back(ctx, t, c, began)
	})
	t.Run("API server gone", func(t *testing.T) {
		systemctl(t, "stop", "kube-apiserver.service")
		began := time.Now()
		drainAll(t)
		wantDrained(ctx, t, c, began, "operator")
		quiet(ctx, t, c)
		began = time.Now()
		_, err := c.Quiesce(ctx, "resume")
		check(t, err)
		check(t, c.Until(ctx, "the victims run again without API server", func(context.Context) (bool, error) { return startedSince(c, began), nil }))
		systemctl(t, "start", "kube-apiserver.service")
		back(ctx, t, c, began)
	})
	t.Run("reboot", func(t *testing.T) {
		began := time.Now()
		check(t, c.Shutdown(ctx))
		wantOrder(t, c, began)
		on := time.Now()
		check(t, c.Start(ctx))
		check(t, c.WaitReady(ctx))
		back(ctx, t, c, on)
		wantDrained(ctx, t, c, began, "shutdown")
	})
}

func resume(ctx context.Context, t *testing.T, c *kube.Cluster) {
	t.Helper()
	began := time.Now()
	_, err := c.Quiesce(ctx, "resume")
	check(t, err)
	back(ctx, t, c, began)
}
