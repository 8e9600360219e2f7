package config

import "testing"

func TestReadMetrics(t *testing.T) {
	tests := map[string]struct {
		root string
		want string
	}{
		"none":      {"version = 3\n", ""},
		"version 3": {"version = 3\n[metrics]\naddress = '127.0.0.1:1338'\n", "127.0.0.1:1338"},
		"version 2": {"version = 2\n[metrics]\naddress = '127.0.0.1:1338'\n", "127.0.0.1:1338"},
		"imported":  {"version = 3\nimports = ['conf.d/*.toml']\n", "127.0.0.1:1339"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, path := etc(t, map[string]string{"config.toml": tt.root, "conf.d/metrics.toml": "version = 3\n[metrics]\naddress = '127.0.0.1:1339'\n"})
			if got, err := ReadMetrics(t.Context(), path); err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
