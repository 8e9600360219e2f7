package distro

import (
	"fmt"
	"testing"

	"quiesce/test/node"
)

// k3s is a node whose k3s renders the config with the base template.
func k3s(base, unit string) layout {
	return layout{
		profile: "k3s", own: []string{"/var/lib/rancher/k3s", "/usr/share/k3s"}, restarts: "systemctl restart " + unit,
		node: node.Config{
			Unit: unit, Socket: "/run/k3s/containerd/containerd.sock", NoConfig: true,
			Programs: map[string]string{"./test/distro/supervisor": "/usr/local/bin/k3s"},
			Files: map[string]node.File{
				"/etc/systemd/system/" + unit: {Content: fmt.Sprintf(service, "/run/k3s/containerd", "/usr/local/bin/k3s server")},
				"/usr/share/k3s/base.tmpl":    {Content: base},
			},
		},
	}
}

// TestConfig_c on k3s: with the directory of drop-ins that it has had since 2026, and before that, with a unit of another name.
func TestConfig_c_K3s(t *testing.T) {
	t.Parallel()
	for name, y := range map[string]layout{
		"drop-ins": k3s("version = 3\nimports = [\"{{ .Dir }}/config-v3.toml.d/*.toml\"]\n"+tables, "k3s.service"),
		"template": k3s("version = 3\n"+tables, "k3s-two.service"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y.through(t)
		})
	}
}
