package drain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestDrain_c drains what does not want to go. The unkillable container's shim hangs.
func TestDrain_c(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-c"})
	deaf, frozen, hook := Victim("default", "deaf", 5, "-deaf"), Victim("default", "frozen", 3), Victim("default", "hook", 4)
	hook.Containers[0].PreStop = `{"exec":{"command":["/bin/sleep","1000"]}}`
	dns := Victim("kube-system", "dns", 600, "-deaf")
	check(t, k.Start(ctx, deaf, frozen, hook, dns))
	started(ctx, t, l, "deaf", "frozen", "hook", "dns")
	sh(ctx, t, l, `p=$(pgrep -f 'evidence/[f]rozen'); kill -STOP $(awk '/PPid/ {print $2}' /proc/$p/status)`)
	out, err := l.Quiesce(ctx, "drain", "--all", "--yes", "--deadline", "30s")
	check(t, err)
	r := report(ctx, t, l)
	t.Logf("took %v of 30 s\n%s", r.Finished.Sub(r.Began), out)
	if late := r.Finished.Sub(r.Deadline); late > time.Second {
		t.Errorf("it ended %v after its deadline", late)
	}
	table, err := l.Quiesce(ctx, "report")
	check(t, err)
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 1 {
			rows[f[1]] = line
		}
	}
	for pod, want := range map[string][]string{
		"default/deaf": {"killed at deadline"}, "default/frozen": {"unkillable"}, "default/hook": {"exited", "cut off"},
		"kube-system/dns": {"killed at deadline", "asked 10m"},
	} {
		for _, text := range want {
			if !strings.Contains(rows[pod], text) {
				t.Errorf("the report lacks %q of %s:\n%s", text, pod, table)
			}
		}
		_, name, _ := strings.Cut(pod, "/")
		if hard := want[0] != "exited"; hard != strings.Contains(out, name) {
			t.Errorf("the drain names %s: %v", name, !hard)
		}
	}
}

func hooked(name, hook string, args ...string) Pod {
	p := Victim("default", name, 20, args...)
	p.Containers[0].PreStop = hook
	return p
}

// TestDrain_i runs hooks of every kind, sidecars, and stop signals of images and containers.
func TestDrain_i(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-i", Node: node.Config{Images: []node.Image{
		{Name: "localhost/victim-usr1:1", Programs: map[string]string{"/victim": "./test/drain/victim"}, StopSignal: "SIGUSR1"},
	}}})
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
