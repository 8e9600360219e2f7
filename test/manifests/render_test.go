package manifests

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quiesce/test/render"
)

func objects(t *testing.T, verb, path string, more ...string) map[string]render.Object {
	t.Helper()
	all, err := render.Objects(t.Context(), verb, path, more...)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]render.Object{}
	for _, o := range all {
		by[o.String()] = o
	}
	if len(by) != len(all) || len(all) == 0 {
		t.Fatalf("%s %s: %d objects, %d names", verb, path, len(all), len(by))
	}
	return by
}

// TestKustomizeAndHelmSayTheSame: the base is the chart with its defaults, but for the namespace, which is Helm's business;
// so are the RuntimeClasses.
func TestKustomizeAndHelmSayTheSame(t *testing.T) {
	base, chart := objects(t, "kustomize", "base"), objects(t, "helm", "chart")
	if _, ok := base["Namespace quiesce"]; !ok {
		t.Errorf("the base has no namespace: %v", slices.Sorted(maps.Keys(base)))
	}
	delete(base, "Namespace quiesce")
	same(t, base, chart)

	classes := objects(t, "kustomize", "runtimeclasses")
	with := objects(t, "helm", "chart", `{"runtimeClasses": [{"name": "spin", "handler": "spin-v2"}, {"name": "wasmtime", "handler": "wasmtime"},
		{"name": "gvisor", "handler": "runsc"}, {"name": "kata", "handler": "kata", "overhead": {"cpu": "250m", "memory": "160Mi"}}]}`)
	for name := range chart {
		delete(with, name)
	}
	same(t, classes, with)
}

func same(t *testing.T, kustomize, helm map[string]render.Object) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(kustomize)) {
		if diff := cmp.Diff(kustomize[name].All, helm[name].All); diff != "" {
			t.Errorf("%s: kustomize (-) and helm (+) differ:\n%s", name, diff)
		}
	}
	if len(kustomize) != len(helm) {
		t.Errorf("kustomize makes %d objects, helm %d", len(kustomize), len(helm))
	}
}

// TestSettings: with settings for all nodes, both mount them read-only and hand them over.
func TestSettings(t *testing.T) {
	const text = "quietPeriod = \"5s\"\n\n[drain]\ndeadline = \"5m\"\n"
	values, err := json.Marshal(map[string]string{"settings": text})
	if err != nil {
		t.Fatal(err)
	}
	for tool, all := range map[string]map[string]render.Object{"kustomize": objects(t, "kustomize", "settings"), "helm": objects(t, "helm", "chart", string(values))} {
		pod := workload(t, all["DaemonSet quiesce"]).Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			m := c.VolumeMounts[len(c.VolumeMounts)-1]
			if !slices.Contains(c.Args, "--settings=/settings/config.toml") || m.MountPath != "/settings" || !m.ReadOnly {
				t.Errorf("%s, container %s: %v %+v", tool, c.Name, c.Args, c.VolumeMounts)
			}
		}
		var m struct{ Data map[string]string }
		for name, o := range all {
			if strings.HasPrefix(name, "ConfigMap quiesce-settings") {
				if err := o.Into(&m); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := m.Data["config.toml"]; got == "" || tool == "helm" && strings.TrimSpace(got) != strings.TrimSpace(text) {
			t.Errorf("%s: the settings are %q", tool, got)
		}
	}
}

// TestChartValues: every value has an effect, and what is no value is refused.
func TestChartValues(t *testing.T) {
	ds := objects(t, "helm", "chart", `{"image": {"repository": "r/q", "tag": "v9", "pullPolicy": "Always"}, "imagePullSecrets": [{"name": "s"}],
		"keep": "1h", "maxUnavailable": "5%", "minReadySeconds": 7, "nodeSelector": {"a": "b"}, "tolerations": [], "affinity": {"nodeAffinity": {}},
		"priorityClassName": "", "resources": null}`)["DaemonSet quiesce"]
	spec := workload(t, ds)
	pod := spec.Spec.Template.Spec
	c := pod.Containers[0]
	if c.Image != "r/q:v9" || c.ImagePullPolicy != "Always" || c.Args[len(c.Args)-1] != "1h" || len(pod.ImagePullSecrets) != 1 ||
		spec.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != "5%" || spec.Spec.MinReadySeconds != 7 || pod.NodeSelector["a"] != "b" ||
		len(pod.Tolerations) != 0 || pod.Affinity == nil || pod.PriorityClassName != "" || c.Resources != nil {
		t.Errorf("a value has no effect: %+v", spec)
	}
	for _, bad := range []string{`{"imagee": {}}`, `{"image": {"repository": ""}}`, `{"keep": "soon"}`, `{"runtimeClasses": [{"name": "x", "handler": "Not_A_Handler"}]}`} {
		if _, err := render.Objects(t.Context(), "helm", "chart", bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func workload(t *testing.T, o render.Object) render.Workload {
	t.Helper()
	w, err := o.Workload()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestPodsAskForLittle: no privileges, no capability, no host namespace, a read-only root, seccomp, and the fewest mounts.
func TestPodsAskForLittle(t *testing.T) {
	mounts := map[string]string{ // by object: what it mounts, and whether it may write
		"DaemonSet quiesce": "/ rw", "Job spin-v2-install": "/var/lib/quiesce/inbox rw", "Job spin-v2-live": "/var/lib/quiesce/results ro",
	}
	all := objects(t, "yaml", "installer-job.yaml")
	maps.Copy(all, objects(t, "kustomize", "base"))
	for name, want := range mounts {
		pod := workload(t, all[name]).Spec.Template.Spec
		if pod.HostPID || pod.HostNetwork || pod.HostIPC || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s asks for too much: %+v", name, pod)
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			s := c.SecurityContext
			if s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || len(s.Capabilities.Add) > 0 ||
				!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || s.SeccompProfile.Type != "RuntimeDefault" {
				t.Errorf("%s, container %s: %+v", name, c.Name, s)
			}
			if writes := name != "Job spin-v2-live"; writes == s.RunAsNonRoot {
				t.Errorf("%s, container %s: root: %v", name, c.Name, !s.RunAsNonRoot)
			}
			if len(c.VolumeMounts) != 1 || len(pod.Volumes) != 1 {
				t.Fatalf("%s, container %s mounts %+v", name, c.Name, c.VolumeMounts)
			}
			got := pod.Volumes[0].HostPath.Path + map[bool]string{true: " ro", false: " rw"}[c.VolumeMounts[0].ReadOnly]
			if got != want {
				t.Errorf("%s, container %s mounts %s, want %s", name, c.Name, got, want)
			}
		}
	}
	if n := workload(t, all["DaemonSet quiesce"]).Spec.UpdateStrategy.RollingUpdate.MaxUnavailable; n != 1.0 {
		t.Errorf("maxUnavailable: %v", n)
	}
	if n := workload(t, all["Job spin-v2-live"]).Spec.BackoffLimit; n == nil || *n != 0 {
		t.Error("the Job that waits tries again, and hides a rejected change")
	}
}
