package drain

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
	"quiesce/test/node"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// setup boots a node with quiesce and its drain unit.
func setup(t testing.TB, limit time.Duration, o lab.Options) (context.Context, *lab.Lab, *Kubelet) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("the test's time is over"))
	t.Cleanup(cancel)
	o.Node.Images = append(o.Node.Images, node.Image{Name: Image, Programs: map[string]string{"/victim": "./test/drain/victim"}})
	l, err := lab.Boot(ctx, o)
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			keep(t, l)
		}
		check(t, l.Close())
	})
	return ctx, l, NewKubelet(l, o.Node.SystemdCgroup)
}

func keep(t testing.TB, l *lab.Lab) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	journal, err := l.Journal(ctx)
	if err != nil {
		t.Logf("read journal: %v", err)
	}
	file := filepath.Join("..", "..", "out", strings.ReplaceAll(t.Name(), "/", "-")+".journal")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(journal), 0o644)); err != nil {
		t.Logf("keep journal: %v", err)
	}
	var tail []string
	for line := range strings.Lines(journal) {
		if strings.Contains(line, " quiesce[") && !strings.Contains(line, "level=debug") && !strings.Contains(line, `"debug"`) {
			tail = append(tail, line)
		}
	}
	t.Logf("end of the journal's lines on quiesce:\n%s", strings.Join(tail[max(0, len(tail)-40):], ""))
}

func sh(ctx context.Context, t testing.TB, l *lab.Lab, script string) string {
	t.Helper()
	out, err := l.Exec(ctx, "sh", "-c", script)
	check(t, err)
	return out
}

// Report is what a reader of `quiesce report --output json` relies on.
type Report struct {
	Phase, Trigger  string
	Began, Finished time.Time
	Steps           []struct {
		Name         string
		Began, Ended time.Time
	}
	Pods []struct {
		Namespace, Name string
		Step            int
		Asked           time.Duration `json:"grace_asked"`
		Given           time.Duration `json:"grace_given"`
		Stopped         time.Time     `json:"sandbox_stopped"`
		Began           time.Time
		Containers      []struct {
			ID, Name, Outcome string
			Signal, Kill      time.Time
			Exit              time.Time
			Code              *int
			HookError         string `json:"hook_error"`
		}
	}
	Notes []string
}

func report(ctx context.Context, t testing.TB, l *lab.Lab) Report {
	t.Helper()
	out, err := l.Quiesce(ctx, "report", "--output", "json")
	check(t, err)
	var r Report
	check(t, json.Unmarshal([]byte(out), &r))
	return r
}

// outcomes maps pod/container to the outcome.
func (r Report) outcomes() map[string]string {
	out := map[string]string{}
	for _, p := range r.Pods {
		for _, c := range p.Containers {
			out[p.Name+"/"+c.Name] = c.Outcome
		}
	}
	return out
}

// running lists the containers that run.
func running(ctx context.Context, t testing.TB, l *lab.Lab) (names []string) {
	t.Helper()
	cri, err := l.CRI(ctx)
	check(t, err)
	list, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	check(t, err)
	for _, ct := range list.GetContainers() {
		names = append(names, ct.GetLabels()["io.kubernetes.pod.name"])
	}
	return names
}

// started waits until the victims have installed their signal handlers.
func started(ctx context.Context, t testing.TB, l *lab.Lab, logs ...string) {
	t.Helper()
	for _, log := range logs {
		check(t, l.Until(ctx, log+" has started", func(context.Context) (bool, error) {
			ev, err := Events(l, log)
			return err == nil && len(ev) > 0, nil
		}))
	}
}

// signals are the signals a victim got, in order.
func signals(t testing.TB, l *lab.Lab, log string) (got []Event) {
	t.Helper()
	all, err := Events(l, log)
	check(t, err)
	for _, e := range all {
		switch e.What {
		case "terminated", "interrupt", "user defined signal 1", "hangup", "quit":
			got = append(got, e)
		}
	}
	return got
}

func names(pods []Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}
