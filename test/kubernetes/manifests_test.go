package kubernetes

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quiesce/test/render"
)

// values of the chart turn everything on.
const values = `{"image": {"repository": "registry.example/quiesce", "tag": "v1", "pullPolicy": "Always"}, "imagePullSecrets": [{"name": "s"}],
	"settings": "quietPeriod = '5s'", "nodeSelector": {"a": "b"}, "affinity": {"nodeAffinity": {}}, "maxUnavailable": "5%",
	"runtimeClasses": [{"name": "spin", "handler": "spin-v2"}, {"name": "kata", "handler": "kata", "overhead": {"cpu": "250m"}}]}`

// TestKubernetes_Manifests has the API server check every object that is shipped.
func TestKubernetes_Manifests(t *testing.T) {
	ctx, c := plain(t)
	shipped := map[string][]render.Object{}
	for _, from := range [][]string{
		{"kustomize", "base"},
		{"kustomize", "settings"},
		{"kustomize", "runtimeclasses"},
		{"helm", "chart"},
		{"helm", "chart", values},
		{"yaml", "installer-job.yaml"},
	} {
		all, err := render.Objects(ctx, from[0], from[1], from[2:]...)
		check(t, err)
		shipped[strings.Join(from, " ")] = all
	}
	check(t, c.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: quiesce}}"))
	n := 0
	for from, all := range shipped {
		for _, o := range all {
			n++
			b, err := json.Marshal(o.All)
			check(t, err)
			if err := c.Check(ctx, string(b)); err != nil {
				t.Errorf("%s: %s: %v", from, o, err)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d objects were found", n)
	}
	for _, file := range []string{"installer-job.yaml", "base/daemonset.yaml", "runtimeclasses/runtimeclasses.yaml"} { // as they are written
		b, err := os.ReadFile(filepath.Join(render.Root, "manifests", file))
		check(t, err)
		if err := c.Check(ctx, string(b)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	wrong := maps.Clone(shipped["kustomize base"][0].All)
	wrong["colour"] = "red"
	b, err := json.Marshal(wrong)
	check(t, err)
	if err := c.Check(ctx, string(b)); err == nil || !strings.Contains(err.Error(), "colour") {
		t.Errorf("a field that there is not: %v", err)
	}
}
