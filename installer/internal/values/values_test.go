package values_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quiesce/installer/internal/values"
)

func TestTyped(t *testing.T) {
	tests := map[string]any{
		"true": true, "false": false, "True": "True", "7": int64(7), "-1": int64(-1), "007": "007", "1.5": "1.5", "": "",
		`"7"`: "7", `"x`: `"x`, `["a","b"]`: []any{"a", "b"}, "[1]": "[1]", "a,b": "a,b", "/opt/x": "/opt/x",
	}
	for text, want := range tests {
		if diff := cmp.Diff(want, values.Typed(text)); diff != "" {
			t.Errorf("Typed(%q): %s", text, diff)
		}
	}
}

func TestTable(t *testing.T) {
	tests := map[string]struct {
		texts []string
		want  values.Table // nil: refused
	}{
		"nested":            {[]string{"a.b=1", "a.c.d=x", "e=true"}, values.Table{"a": map[string]any{"b": int64(1), "c": map[string]any{"d": "x"}}, "e": true}},
		"one per line":      {[]string{"a=1\n b=2\n\n"}, values.Table{"a": int64(1), "b": int64(2)}},
		"the last counts":   {[]string{"a=1", "a=2"}, values.Table{"a": int64(2)}},
		"= in the value":    {[]string{"a=b=c"}, values.Table{"a": "b=c"}},
		"comma":             {[]string{"a=b,c"}, values.Table{"a": "b,c"}},
		"no value":          {[]string{"a"}, nil},
		"no key":            {[]string{"=a"}, nil},
		"value then table":  {[]string{"a=1", "a.b=1"}, nil},
		"table then value":  {[]string{"a.b=1", "a=1"}, nil},
		"below a non-table": {[]string{"a.b=1", "a.b.c=1"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got values.Table
			err := got.Set(tt.texts, values.Typed)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error: %v", err)
			}
			if diff := cmp.Diff(tt.want, got); err == nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetting(t *testing.T) {
	got, err := values.Setting([]string{"pod_annotations=a/b, c", `container_annotations=["x"]`, "snapshotter=native", "cni_max_conf_num=1"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"pod_annotations": []any{"a/b", "c"}, "container_annotations": []any{"x"}, "snapshotter": "native", "cni_max_conf_num": int64(1)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFromJSON(t *testing.T) {
	got, err := values.FromJSON(`{"SystemdCgroup":"true","a.b":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values.Table{"SystemdCgroup": true, "a": map[string]any{"b": "x"}}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"x", "[]", `{"a":1}`} {
		if _, err := values.FromJSON(bad); err == nil {
			t.Errorf("FromJSON(%s): no error", bad)
		}
	}
}
