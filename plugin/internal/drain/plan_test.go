package drain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quiesce/plugin/internal/node"
)

// tp is a pod with one running container.
func tp(ns, name string, change ...func(*node.Pod)) *node.Pod {
	p := &node.Pod{
		ID: "p-" + name, UID: "u-" + name, Namespace: ns, Name: name, Ready: true,
		Labels: map[string]string{"app": name}, Annotations: map[string]string{source: "api"},
		Containers: []node.Container{{ID: "c-" + name, Name: "main", State: node.Running, Annotations: map[string]string{}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func label(k, v string) func(*node.Pod)    { return func(p *node.Pod) { p.Labels[k] = v } }
func annotate(k, v string) func(*node.Pod) { return func(p *node.Pod) { p.Annotations[k] = v } }
func mount(host string) func(*node.Pod) {
	return func(p *node.Pod) {
		p.Containers[0].Mounts = append(p.Containers[0].Mounts, node.Mount{Host: host, Writable: true})
	}
}

func asks(grace string) func(*node.Pod) {
	return func(p *node.Pod) { p.Containers[0].Annotations[podGrace] = grace }
}

// order writes a plan as "tier: pod pod | tier: …".
func order(p Plan) string {
	var steps []string
	for _, s := range p.Steps {
		var names []string
		for _, pl := range s.Pods {
			names = append(names, pl.Pod.Name)
		}
		steps = append(steps, s.Name()+": "+strings.Join(names, " "))
	}
	return strings.Join(steps, " | ")
}

func selector(t *testing.T, text string) Selector {
	t.Helper()
	s, err := ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefaultTiers(t *testing.T) {
	ds := func(p *node.Pod) {
		p.Labels["pod-template-generation"], p.Labels["controller-revision-hash"] = "1", "x"
	}
	plan, err := New(node.Snapshot{Pods: []*node.Pod{
		tp("kube-system", "etcd", annotate(source, "file")),
		tp("kube-system", "cni", ds, mount("/opt/cni/bin")),
		tp("kube-system", "kube-proxy", ds, label("k8s-app", "kube-proxy")),
		tp("storage", "csi", ds, mount("/var/lib/kubelet/plugins/x")),
		tp("log", "agent", ds),
		tp("kube-system", "dns"),
		tp("default", "web"),
	}}, DefaultPolicy(), Selection{All: true})
	want := "workloads: web | kube-system: dns | daemonsets: agent | storage: csi | network: cni kube-proxy | static: etcd"
	if got := order(plan); got != want || err != nil {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	for _, s := range plan.Steps {
		for _, pl := range s.Pods {
			if len(pl.Why) == 0 || pl.Grace != 30*time.Second {
				t.Errorf("%s: why %q, grace %v", pl.Pod, pl.Why, pl.Grace)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	policy := DefaultPolicy()
	sel := selector(t, "shop/app=web")
	policy.Rules = []Rule{{Selector: &sel, Tier: "storage", Grace: "90"}, {Annotation: "keep", Skip: true}}
	plan, err := New(node.Snapshot{Pods: []*node.Pod{
		tp("shop", "web", asks("5")),
		tp("shop", "web2", label("app", "web"), annotate(annTier, "15"), annotate(annGrace, "1m"), asks("5")),
		tp("shop", "other", asks("7"), annotate("keep", "")),
		tp("shop", "zero", asks("0")),
		tp("shop", "alone", annotate(annSkip, "true")),
	}}, policy, Selection{All: true})
	if got, want := order(plan), "workloads: zero | 15: web2 | storage: web"; got != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	graces := map[string]time.Duration{}
	for _, s := range plan.Steps {
		for _, pl := range s.Pods {
			graces[pl.Pod.Name] = pl.Grace
		}
	}
	if graces["web"] != 90*time.Second || graces["web2"] != time.Minute || graces["zero"] != 30*time.Second {
		t.Errorf("graces %v", graces)
	}
	if len(plan.Skipped) != 2 {
		t.Errorf("skipped %v", plan.Skipped)
	}
}

func TestEdges(t *testing.T) {
	policy := DefaultPolicy()
	policy.Edges = []Edge{{First: selector(t, "app=web"), Then: selector(t, "app=db")}}
	ds := func(p *node.Pod) {
		p.Labels["pod-template-generation"], p.Labels["controller-revision-hash"] = "1", "x"
	}
	for name, tc := range map[string]struct {
		pods []*node.Pod
		want string
	}{
		"waves in a tier":               {[]*node.Pod{tp("a", "db"), tp("a", "web")}, "workloads: web | workloads/2: db"},
		"what follows is moved up":      {[]*node.Pod{tp("a", "db"), tp("a", "web", ds)}, "daemonsets: web | daemonsets/2: db"},
		"what goes before is moved":     {[]*node.Pod{tp("a", "db", annotate(annTier, "10")), tp("a", "web", ds)}, "workloads: web | workloads/2: db"},
		"after, by annotation":          {[]*node.Pod{tp("a", "x", annotate(annAfter, "app=y; app=z")), tp("a", "y"), tp("a", "z")}, "workloads: y z | workloads/2: x"},
		"before, by annotation":         {[]*node.Pod{tp("a", "x"), tp("a", "y", annotate(annBefore, "app=x"))}, "workloads: y | workloads/2: x"},
		"other namespaces are left out": {[]*node.Pod{tp("a", "x"), tp("b", "y", annotate(annBefore, "a/app=x"))}, "workloads: x y"},
	} {
		plan, err := New(node.Snapshot{Pods: tc.pods}, policy, Selection{All: true})
		if got := order(plan); got != tc.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, tc.want)
		}
	}
}

// What is wrong is said, and the plan has every pod all the same.
func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		pods []*node.Pod
		want []string
	}{
		"cycle": {[]*node.Pod{tp("a", "x", annotate(annBefore, "app=y")), tp("a", "y", annotate(annBefore, "app=x"))}, []string{"cycle", "a/x", "a/y"}},
		"contradiction": {
			[]*node.Pod{tp("a", "x", annotate(annTier, "50"), annotate(annBefore, "app=y")), tp("a", "y", annotate(annTier, "10"))},
			[]string{"contradiction", "a/x", "a/y"},
		},
		"tier":     {[]*node.Pod{tp("a", "x", annotate(annTier, "never"))}, []string{"a/x", "never"}},
		"grace":    {[]*node.Pod{tp("a", "x", annotate(annGrace, "-1"))}, []string{"a/x", "-1"}},
		"selector": {[]*node.Pod{tp("a", "x", annotate(annAfter, "=b"))}, []string{"a/x", "=b"}},
	} {
		plan, err := New(node.Snapshot{Pods: tc.pods}, DefaultPolicy(), Selection{All: true})
		if plan.Pods() != len(tc.pods) {
			t.Errorf("%s: %d pods", name, plan.Pods())
		}
		for _, w := range tc.want {
			if !strings.Contains(fmt.Sprint(err), w) {
				t.Errorf("%s: %v lacks %q", name, err, w)
			}
		}
	}
}

func TestSelection(t *testing.T) {
	spin, sel := "spin", selector(t, "a/app!=x")
	pods := []*node.Pod{tp("a", "x"), tp("a", "y"), tp("b", "z", func(p *node.Pod) { p.Handler = "spin" })}
	for want, s := range map[string]Selection{
		"workloads: x y z": {All: true},
		"workloads: z":     {Handler: &spin},
		"workloads: y":     {Selector: &sel},
		"workloads: x":     {Pod: "a/x"},
		"":                 {},
	} {
		plan, err := New(node.Snapshot{Pods: pods}, DefaultPolicy(), s)
		if got := order(plan); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", s, got, err, want)
		}
	}
}

func TestHooks(t *testing.T) {
	ports := `[{"name":"web","containerPort":8080}]`
	for text, want := range map[string]string{
		`{"exec":{"command":["/bin/x","y"]}}`:                    "exec /bin/x y",
		`{"httpGet":{"path":"bye","port":"web"}}`:                "httpGet 8080/bye",
		`{"httpGet":{"path":"/bye","port":81,"scheme":"HTTPS"}}`: "httpGet 81/bye",
		`{"tcpSocket":{"port":9,"host":"1.2.3.4"}}`:              "tcpSocket 1.2.3.4:9",
		`{"sleep":{"seconds":3}}`:                                "sleep 3s",
	} {
		if h, err := parseHook(text, ports); err != nil || h.String() != want {
			t.Errorf("%s: %v, %v", text, h, err)
		}
	}
	for _, text := range []string{`{`, `{}`, `{"httpGet":{"port":"nope"}}`, `{"tcpSocket":{"port":0}}`} {
		if h, err := parseHook(text, ports); err == nil {
			t.Errorf("%s: %v", text, h)
		}
	}
}

func TestSidecarsAndHandlers(t *testing.T) {
	p := tp("a", "x", annotate(annSidecars, "proxy, log"))
	for _, n := range []string{"log", "proxy"} {
		p.Containers = append(p.Containers, node.Container{ID: n, Name: n, State: node.Running})
	}
	plan, err := New(node.Snapshot{Pods: []*node.Pod{p}}, DefaultPolicy(), Selection{All: true})
	if got := plan.Steps[0].Pods[0].names(); got != "main > log > proxy" || err != nil {
		t.Errorf("order %s, %v", got, err)
	}
	var out strings.Builder
	if err := plan.Print(&out); err != nil || !strings.Contains(out.String(), "nothing says otherwise") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
