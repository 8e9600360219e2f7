package manifests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quiesce/test/render"
)

// target are the labels that Prometheus itself gives every series.
var target = []string{"instance", "job", "le"}

// TestQueriesNameWhatExists: every expression of the rules and the dashboard parses, and selects metrics, and labels of
// them, that the daemon has. docs/usage/metrics.md is made of the daemon's own list.
func TestQueriesNameWhatExists(t *testing.T) {
	exist := known(t)
	dir := filepath.Join(render.Root, "manifests", "monitoring")
	out, err := render.Run(t.Context(), "queries", filepath.Join(dir, "alerts.yaml"), filepath.Join(dir, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var selectors []struct {
		File, Expression, Metric string
		Labels                   []string
	}
	if err := json.Unmarshal(out, &selectors); err != nil {
		t.Fatal(err)
	}
	if len(selectors) < 20 {
		t.Errorf("only %d selections were found", len(selectors))
	}
	shown := map[string]bool{}
	for _, s := range selectors {
		name := s.Metric
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if _, ok := exist[name]; !ok {
				name = strings.TrimSuffix(s.Metric, suffix)
			}
		}
		labels, ok := exist[name]
		if !ok {
			t.Errorf("%s: %s: there is no %s", s.File, s.Expression, s.Metric)
			continue
		}
		shown[name] = true
		for _, l := range s.Labels {
			// A label that one side of the expression groups by may be the other side's.
			if !slices.Contains(labels, l) && !slices.Contains(target, l) && strings.Contains(s.Expression, l+"=") {
				t.Errorf("%s: %s: %s has no label %s", s.File, s.Expression, s.Metric, l)
			}
		}
	}
	t.Logf("%d of %d metrics are used", len(shown), len(exist))
}

var row = regexp.MustCompile("(?m)^\\| `(quiesce_[a-z_]+)` \\| [a-z]+ \\| ([a-z, ]*) \\|")

// known are the metrics that exist, and their labels.
func known(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(render.Root, "docs/usage/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(b), -1) {
		all[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(all) < 20 {
		t.Fatalf("only %d metrics are known", len(all))
	}
	return all
}
