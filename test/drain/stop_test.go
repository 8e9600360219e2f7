package drain

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestDrain_c drains what does not want to go. The unkillable container's shim hangs.
func TestDrain_c(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, 3*time.Minute, lab.Options{Name: "drain-c"})
	deaf, frozen, hook := Victim("default", "deaf", 5, "-deaf"), Victim("default", "frozen", 3), Victim("default", "hook", 4)
	hook.Containers[0].PreStop = `{"exec":{"command":["/bin/sleep","1000"]}}`
	dns := Victim("kube-system", "dns", 600, "-deaf")
	check(t, k.Start(ctx, deaf, frozen, hook, dns))
	started(ctx, t, l, "deaf", "frozen", "hook", "dns")
	sh(ctx, t, l, `p=$(pgrep -f 'evidence/[f]rozen'); kill -STOP $(awk '/PPid/ {print $2}' /proc/$p/status)`)
	began := time.Now()
	out, err := l.Quiesce(ctx, "drain", "--all", "--yes", "--deadline", "30s")
	check(t, err)
	took := time.Since(began)
	t.Logf("took %.1f s of 30 s\n%s", took.Seconds(), out)
	if took > 31*time.Second {
		t.Errorf("took %v, the deadline was 30s", took)
	}
	got := report(ctx, t, l).outcomes()
	for c, want := range map[string]string{"deaf/main": "killed at deadline", "frozen/main": "unkillable", "hook/main": "exited", "dns/main": "killed at deadline"} {
		if got[c] != want {
			t.Errorf("%s: %q, want %q", c, got[c], want)
		}
	}
	for _, name := range []string{"deaf", "frozen", "dns"} {
		if !strings.Contains(out, name) {
			t.Errorf("%s is not named", name)
		}
	}
	if table, err := l.Quiesce(ctx, "report"); err != nil || !strings.Contains(table, "cut off") {
		t.Errorf("the hook is not named: %v\n%s", err, table)
	}
}

// TestDrain_i runs hooks of every kind, sidecars, and stop signals of images and containers.
func TestDrain_i(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, 3*time.Minute, lab.Options{Name: "drain-i", Node: node.Config{Images: []node.Image{
		{Name: "localhost/victim-usr1:1", Programs: map[string]string{"/victim": "./test/drain/victim"}, StopSignal: "SIGUSR1"},
	}}})
	hooked := func(name, hook string, args ...string) Pod {
		p := Victim("default", name, 20, args...)
		p.Containers[0].PreStop = hook
		return p
	}
	exec := hooked("exec", `{"exec":{"command":["/victim","-log","/evidence/exec","-hook","hook"]}}`)
	http := hooked("http", `{"httpGet":{"path":"/bye","port":"web","httpHeaders":[{"name":"X-Quiesce","value":"yes"}]}}`, "-listen", ":8080")
	http.Containers[0].Ports = `[{"name":"web","containerPort":8080}]`
	tcp := hooked("tcp", `{"tcpSocket":{"port":8081}}`, "-listen", ":8081")
	sleep := hooked("sleep", `{"sleep":{"seconds":2}}`)
	image := Victim("default", "image", 10)
	image.Containers[0].Image = "localhost/victim-usr1:1"
	sig := Victim("default", "sig", 10)
	sig.Containers[0].StopSignal = "SIGINT"
	side := Victim("default", "side", 20, "-after", "1s")
	side.Annotations["quiesce.internal/sidecars"] = "proxy,log"
	side.Containers = append(side.Containers, VictimContainer("proxy", "side-proxy", "-after", "300ms"), VictimContainer("log", "side-log", "-after", "300ms"))
	pods := []Pod{exec, http, tcp, sleep, image, sig, side}
	check(t, k.Start(ctx, pods...))
	started(ctx, t, l, append(names(pods), "side-proxy", "side-log")...)
	began := time.Now()
	_, err := l.Quiesce(ctx, "drain", "--all", "--yes")
	check(t, err)
	for name, want := range map[string][]string{
		"exec":  {"start", "hook", "terminated", "exit"},
		"http":  {"start", "connection", "http /bye yes", "terminated", "exit"},
		"tcp":   {"start", "connection", "terminated", "exit"},
		"sleep": {"start", "terminated", "exit"},
		"image": {"start", "user defined signal 1", "exit"},
		"sig":   {"start", "interrupt", "exit"},
	} {
		all, err := Events(l, name)
		check(t, err)
		var got []string
		for _, e := range all {
			got = append(got, e.What)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if s := signals(t, l, "sleep")[0].At.Sub(began); s < 2*time.Second {
		t.Errorf("sleep was signalled after %v", s)
	}
	main, log, proxy := signals(t, l, "side")[0].At, signals(t, l, "side-log")[0].At, signals(t, l, "side-proxy")[0].At
	if log.Sub(main) < time.Second || proxy.Sub(log) < 300*time.Millisecond {
		t.Errorf("main at %v, log at %v, proxy at %v", main, log, proxy)
	}
	for _, p := range report(ctx, t, l).Pods {
		for _, c := range p.Containers {
			if c.Outcome != "exited" || c.HookError != "" {
				t.Errorf("%s/%s: %s, %s", p.Name, c.Name, c.Outcome, c.HookError)
			}
		}
	}
}

// TestDrain_j makes and removes other pods beside a drain with long graces, while the plugin registers anew.
func TestDrain_j(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, 3*time.Minute, lab.Options{Name: "drain-j"})
	long := []Pod{Victim("slow", "a", 60, "-after", "25s"), Victim("slow", "b", 60, "-after", "25s"), Victim("slow", "c", 60, "-after", "25s")}
	check(t, k.Start(ctx, long...))
	started(ctx, t, l, names(long)...)
	done := make(chan error, 1)
	go func() {
		_, err := l.Quiesce(ctx, "drain", "--selector", "slow/*")
		done <- err
	}()
	check(t, l.Until(ctx, "a is signalled", func(context.Context) (bool, error) { return len(signals(t, l, "a")) == 1, nil }))
	cri, err := l.CRI(ctx)
	check(t, err)
	var slowest time.Duration
	n := 0
	for over := false; !over; n++ {
		select {
		case err := <-done:
			check(t, err)
			over = true
		default:
		}
		if n%5 == 3 {
			sh(ctx, t, l, "systemctl restart quiesce")
		}
		began := time.Now()
		pod, err := l.BeginPod(ctx, node.Pod{Containers: []node.Container{node.Shell("sleep 1000")}})
		check(t, err)
		slowest = max(slowest, time.Since(began))
		_, err = cri.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.SandboxID})
		check(t, err)
	}
	t.Logf("%d pods made and removed beside a drain of 25 s, with %d registrations: the slowest took %v", n, n/5, slowest)
	if slowest > 4*time.Second {
		t.Errorf("CRI was frozen for %v", slowest)
	}
	for _, p := range long {
		if got := signals(t, l, p.Name); len(got) != 1 {
			t.Errorf("%s got %v", p.Name, got)
		}
	}
}
