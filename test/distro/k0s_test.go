package distro

import (
	"fmt"
	"testing"

	"quiesce/test/node"
)

// tablesV2 are the tables for a k0s that brings containerd 1.7, with NRI: quiesce turns it on in a file of its own only.
const tablesV2 = `[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = '` + node.PauseImage + `'
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = '/usr/lib/cni'
conf_dir = '/etc/cni/net.d'

[plugins."io.containerd.nri.v1.nri"]
disable = false
`

// k0s is a node of k0s: as since 1.36, where containerd imports the directory of drop-ins, or as before, where k0s merges them
// for containerd 1.7.
func k0s(containerd, tables string) layout {
	unit := fmt.Sprintf(service, "/run/k0s /etc/k0s/containerd.d /var/lib/k0s/bin", "/usr/local/bin/k0s worker")
	return layout{
		profile: "k0s", own: []string{"/etc/k0s/containerd.d"},
		node: node.Config{
			Containerd: containerd, Unit: "k0sworker.service", Socket: "/run/k0s/containerd.sock", NoConfig: true,
			Programs: map[string]string{"./test/distro/supervisor": "/usr/local/bin/k0s"},
			Files: map[string]node.File{
				"/etc/systemd/system/k0sworker.service":             {Content: unit},
				"/etc/systemd/system/k0sworker.service.d/data.conf": {Content: "[Service]\nExecStartPre=/bin/sh -c 'mkdir -p /var/lib/k0s && ln -sfn /var/lib/containerd /var/lib/k0s/containerd'\n"},
				"/etc/k0s/containerd.d/node.toml":                   {Content: tables},
			},
		},
	}
}

// TestConfig_c on k0s: containerd is k0s's child, and k0s restarts it as soon as anything happens in the directory of its
// drop-ins; quiesce restarts nothing.
func TestConfig_c_K0s(t *testing.T) {
	t.Parallel()
	for name, y := range map[string]layout{
		"1.36": k0s("2.3.7", tables), "1.35": k0s("1.7.35", tablesV2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y.through(t)
		})
	}
}
