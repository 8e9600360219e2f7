package distro

import (
	"fmt"
	"testing"

	"quiesce/test/node"
)

// TestConfig_c on k0s: containerd is k0s's child, and k0s restarts it as soon as anything happens in the directory of its
// drop-ins; quiesce restarts nothing.
func TestConfig_c_K0s(t *testing.T) {
	t.Parallel()
	layout{
		profile: "k0s", own: []string{"/etc/k0s"},
		node: node.Config{
			Unit: "k0sworker.service", Socket: "/run/k0s/containerd.sock", NoConfig: true,
			Programs: map[string]string{"./test/distro/supervisor": "/usr/local/bin/k0s"},
			Files: map[string]node.File{
				"/etc/systemd/system/k0sworker.service": {Content: fmt.Sprintf(service, "/run/k0s /etc/k0s/containerd.d", "/usr/local/bin/k0s worker")},
				"/etc/k0s/containerd.toml":              {Content: "# k0s_managed=true\nversion = 3\nimports = [\"/run/k0s/containerd-cri.toml\"]\n" + tables},
				"/etc/k0s/containerd.d/.keep":           {},
			},
		},
	}.through(t)
}
