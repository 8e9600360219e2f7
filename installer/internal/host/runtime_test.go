package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOtherRuntimes: a node whose pods do not run with containerd is refused before anything is written, on a running node
// and in an image.
func TestOtherRuntimes(t *testing.T) {
	const containerdConfig = "etc/containerd/config.toml"
	const flags, yaml = "var/lib/kubelet/kubeadm-flags.env", "var/lib/kubelet/config.yaml"
	for name, tc := range map[string]struct {
		files map[string]string
		want  string // empty: it is taken
	}{
		"CRI-O, by the kubelet's flags":      {map[string]string{flags: `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/crio/crio.sock --x"`}, "runtime is CRI-O"},
		"CRI-O, by the kubelet's file":       {map[string]string{yaml: "a: b\ncontainerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n"}, "runtime is CRI-O"},
		"CRI-O, by a drop-in":                {map[string]string{unitDir + "/kubelet.service.d/10.conf": "[Service]\nExecStart=/k --container-runtime-endpoint unix:///run/crio/crio.sock\n"}, "runtime is CRI-O"},
		"CRI-O, by its unit":                 {map[string]string{"usr/lib/systemd/system/crio.service": ""}, "crio.service"},
		"Docker, by the kubelet's flags":     {map[string]string{flags: "--container-runtime-endpoint=unix:///run/cri-dockerd.sock"}, "runtime is Docker"},
		"Docker, by dockershim":              {map[string]string{flags: "--container-runtime-endpoint=unix:///var/run/dockershim.sock"}, "runtime is Docker"},
		"Docker, by its unit":                {map[string]string{unitDir + "/cri-docker.service": ""}, "cri-docker.service"},
		"Docker's containerd":                {map[string]string{containerdConfig: "# x\ndisabled_plugins = [\n  \"cri\",\n]\n"}, "CRI plugin is disabled"},
		"containerd 2's CRI disabled":        {map[string]string{containerdConfig: "version = 3\ndisabled_plugins = ['io.containerd.cri.v1.runtime']\n"}, "CRI plugin is disabled"},
		"containerd beside CRI-O's unit":     {map[string]string{"usr/lib/systemd/system/crio.service": "", yaml: "containerRuntimeEndpoint: \"unix:///run/containerd/containerd.sock\"\n"}, ""},
		"containerd, and its flags win":      {map[string]string{flags: "--container-runtime-endpoint=unix:///run/containerd/containerd.sock", yaml: "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n"}, ""},
		"Talos":                              {map[string]string{"etc/os-release": "ID=talos\n"}, "system extension"},
		"Bottlerocket":                       {map[string]string{"usr/lib/os-release": "ID=bottlerocket\n"}, "variant"},
		"GKE's COS":                          {map[string]string{"etc/os-release": "ID=cos\n"}, "ubuntu_containerd"},
		"containerd beside Docker":           {map[string]string{unitDir + "/docker.service": ""}, ""},
		"containerd with something disabled": {map[string]string{containerdConfig: "disabled_plugins = ['io.containerd.snapshotter.v1.zfs']\n"}, ""},
	} {
		for _, live := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				f := newNode(t)
				for file, text := range tc.files {
					f.write(t, file, text)
				}
				before := f.tree(t)
				err := f.install(t, live)
				if tc.want == "" {
					check(t, err)
					return
				}
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "nothing was changed") {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				if diff := cmp.Diff(before, f.tree(t)); diff != "" {
					t.Errorf("changed %s", diff)
				}
			})
		}
	}
}
