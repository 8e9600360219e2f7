package freeze

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"quiesce/plugin/internal/node"
)

// Rules say whose exit codes matter.
type Rules struct {
	Services   []string // labels of pods whose containers are only ever started again
	Namespaces []string // where only the pods of Jobs count: whatever else is there is infrastructure, such as DNS
	Paths      []string // host paths whose users are infrastructure anywhere: CNI, CSI, kubelet, runtime
}

// DefaultRules choose every pod that runs to completion. Deployments label their pods with pod-template-hash, DaemonSets
// and StatefulSets with controller-revision-hash (k8s.io/api/apps/v1).
func DefaultRules() Rules {
	return Rules{
		Services:   []string{"pod-template-hash", "controller-revision-hash"},
		Namespaces: []string{"kube-system"},
		Paths: []string{
			"/etc/cni", "/opt/cni", "/var/lib/cni", "/run/netns", "/var/run/netns",
			"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/device-plugins",
			"/run/containerd", "/var/run/containerd",
		},
	}
}

// Annotations of the kubelet (k8s.io/kubernetes/pkg/kubelet/types/pod_update.go).
const (
	configSource = "kubernetes.io/config.source"
	configMirror = "kubernetes.io/config.mirror"
)

// Choose tells whether the exit codes of a pod matter. One that is infrastructure is not chosen, for the reason given:
// it is unprotected. Services and static pods are neither. It is pure.
func (r *Rules) Choose(p *node.Pod) (chosen bool, infrastructure string) {
	if static(p) || slices.ContainsFunc(r.Services, func(label string) bool { return p.Labels[label] != "" }) {
		return false, ""
	}
	if _, job := p.Job(); !job && slices.Contains(r.Namespaces, p.Namespace) {
		return false, "infrastructure: it is in namespace " + p.Namespace + " and not a Job's"
	}
	for _, c := range p.Containers {
		for _, m := range c.Mounts {
			if at := r.within(m.Host); at != "" {
				return false, fmt.Sprintf("infrastructure: container %s mounts %s", c.Name, at)
			}
		}
	}
	return true, ""
}

func static(p *node.Pod) bool {
	source := p.Annotations[configSource]
	return p.Annotations[configMirror] != "" || (source != "" && source != "api")
}

// within gives the path of the rules that a host path is or is below. What only lies above, such as the root, does
// not make a pod infrastructure: many a Job reads the host.
func (r *Rules) within(host string) string {
	host = filepath.Clean(host)
	for _, p := range r.Paths {
		if host == p || strings.HasPrefix(host, p+"/") {
			return host
		}
	}
	return ""
}
