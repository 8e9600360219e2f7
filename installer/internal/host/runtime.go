package host

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"quiesce/installer/internal/refusal"
)

// kubeletFiles are where a kubelet is told its runtime, those that win first: kubeadm's flags and distributions' own, then
// the configuration file (kubernetes cmd/kubelet/app/options).
var kubeletFiles = []string{
	"var/lib/kubelet/kubeadm-flags.env", "etc/default/kubelet", "etc/sysconfig/kubelet", "etc/systemd/system/kubelet.service",
	"usr/lib/systemd/system/kubelet.service", "lib/systemd/system/kubelet.service", "var/lib/kubelet/config.yaml",
}

var (
	endpoint = regexp.MustCompile(`(?:--container-runtime-endpoint[= \x00]|containerRuntimeEndpoint: *)["']?([^\s"'\x00]+)`)
	// others are the runtimes that are not containerd, by what is in the name of their socket and unit.
	others = []struct{ socket, unit, name string }{
		{"crio", "crio.service", "CRI-O"},
		{"cri-dockerd", "cri-docker.service", "Docker"},
		{"dockershim", "", "Docker"},
	}
)

const containerdConfig = "etc/containerd/config.toml"

// checkRuntime refuses a node whose pods do not run with containerd's CRI.
func (n *Node) checkRuntime() error {
	const only = "quiesce is for containerd, and nothing was changed"
	socket, from := n.kubeletEndpoint()
	for _, o := range others {
		if socket != "" && strings.Contains(socket, o.socket) {
			return refusal.New("host: this node's runtime is %s: the kubelet uses %s (says /%s); %s", o.name, socket, from, only)
		}
	}
	if strings.Contains(socket, "containerd") {
		return nil
	}
	for _, o := range others {
		if o.unit != "" && n.hasUnit(o.unit) {
			return refusal.New("host: this node's runtime is %s: it has the unit %s, and no kubelet says that it uses containerd; %s", o.name, o.unit, only)
		}
	}
	if n.criDisabled() {
		return refusal.New("host: containerd's CRI plugin is disabled in /%s (disabled_plugins), so no pod runs with it, as where Docker brought containerd; %s", containerdConfig, only)
	}
	return nil
}

// kubeletEndpoint is the socket that the kubelet uses, and who says so.
func (n *Node) kubeletEndpoint() (socket, from string) {
	if n.units != nil {
		if cmdline, from := n.kubeletProcess(); cmdline != "" {
			if m := endpoint.FindStringSubmatch(cmdline); m != nil {
				return m[1], from
			}
		}
	}
	files := slices.Clone(kubeletFiles)
	for _, dir := range unitDirs {
		drops, _ := n.list(path.Join(dir, "kubelet.service.d")) // none is usual
		for _, d := range drops {
			files = append(files, path.Join(dir, "kubelet.service.d", d))
		}
	}
	for _, f := range files {
		if text, err := n.look.ReadFile(f); err == nil {
			if m := endpoint.FindSubmatch(text); m != nil {
				return string(m[1]), f
			}
		}
	}
	return "", ""
}

// kubeletProcess is the command line of the kubelet that runs.
func (n *Node) kubeletProcess() (cmdline, from string) {
	names, _ := fs.Glob(n.look.FS(), "proc/[0-9]*/comm") // without processes there is none
	for _, name := range names {
		comm, err := n.look.ReadFile(name)
		if err != nil || strings.TrimSpace(string(comm)) != "kubelet" {
			continue
		}
		from = path.Join(path.Dir(name), "cmdline")
		if b, err := n.look.ReadFile(from); err == nil {
			return string(b), from
		}
	}
	return "", ""
}

// criDisabled tells whether containerd is told to run without CRI.
func (n *Node) criDisabled() bool {
	text, err := n.look.ReadFile(containerdConfig)
	if err != nil {
		return false
	}
	var c struct {
		Disabled []string `toml:"disabled_plugins"`
	}
	if toml.Unmarshal(text, &c) != nil {
		return false // containerd itself will say it
	}
	return slices.ContainsFunc(c.Disabled, func(p string) bool {
		return p == "cri" || p == "io.containerd.grpc.v1.cri" || p == "io.containerd.cri.v1.runtime"
	})
}
