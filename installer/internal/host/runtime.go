package host

import (
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"quiesce/installer/internal/refusal"
	"quiesce/manifests/profile"
)

// others are the runtimes that are not containerd, by what is in the name of their socket and unit.
var others = []struct{ socket, unit, name string }{
	{"crio", "crio.service", "CRI-O"},
	{"cri-dockerd", "cri-docker.service", "Docker"},
	{"dockershim", "", "Docker"},
}

const only = "quiesce is for containerd, and nothing was changed"

// checkRuntime refuses a node whose pods do not run with containerd's CRI, and a distribution on which nothing can be done.
func (n *Node) checkRuntime() error {
	p, err := profile.Detect(n.look.FS())
	if err != nil {
		return err
	}
	if p.Refuse != "" {
		return refusal.New("host: this is %s (%s), and nothing was changed: %s", p.Name, p.Why, p.Refuse)
	}
	n.profile = p
	socket, from := profile.Endpoint(n.look.FS(), n.units != nil)
	for _, o := range others {
		if socket != "" && strings.Contains(socket, o.socket) {
			return refusal.New("host: this node's runtime is %s: the kubelet uses %s (says /%s); %s", o.name, socket, from, only)
		}
	}
	if strings.Contains(socket, "containerd") || socket != "" && n.isContainerd() {
		return nil
	}
	for _, o := range others {
		if o.unit != "" && n.hasUnit(o.unit) {
			return refusal.New("host: this node's runtime is %s: it has the unit %s, and no kubelet says that it uses containerd; %s", o.name, o.unit, only)
		}
	}
	if config := strings.TrimPrefix(p.Config, "/"); n.criDisabled(config) {
		return refusal.New("host: containerd's CRI plugin is disabled in /%s (disabled_plugins), so no pod runs with it, as where Docker brought containerd; %s", config, only)
	}
	return nil
}

// isContainerd tells whether containerd is behind the kubelet's socket.
func (n *Node) isContainerd() bool {
	return n.peer != nil && path.Base(profile.Find(n.look.FS(), n.profile, n.peer).Program) == "containerd"
}

// criDisabled tells whether containerd is told to run without CRI.
func (n *Node) criDisabled(config string) bool {
	text, err := n.look.ReadFile(config)
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

// foundUnit is the unit of the process that runs behind the kubelet's socket, or nothing.
func (n *Node) foundUnit() string {
	if n.peer == nil {
		return ""
	}
	f := profile.Find(n.look.FS(), n.profile, n.peer)
	if f.PID == 0 {
		return ""
	}
	n.why = f.Why
	return f.Unit
}
