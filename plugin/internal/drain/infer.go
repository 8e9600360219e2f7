package drain

import (
	"path"
	"strings"

	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

// What pods may say of themselves. A pod harms nobody but itself with it: its grace ends with the drain's deadline, and
// the selectors of after and before reach its own namespace only.
const (
	annTier     = stage.Prefix + "tier"               // name or rank
	annAfter    = stage.Prefix + "after"              // selectors of pods that stop earlier; "; " between them
	annBefore   = stage.Prefix + "before"             // selectors of pods that stop later
	annGrace    = stage.Prefix + "grace"              // seconds or a duration, instead of the pod's own
	annSkip     = stage.Prefix + "skip"               // "true": not stopped
	annSidecars = stage.Prefix + "sidecars"           // names, in the order of the pod; stopped in reverse after all others
	annAllow    = stage.Prefix + "allow-during-drain" // "true": its containers may be created behind a fence
)

// source is where the kubelet read a pod from: api, file or http (kubernetes pkg/kubelet/types).
const source = "kubernetes.io/config.source"

func static(p *node.Pod) bool {
	s := p.Annotations[source]
	return s != "" && s != "api"
}

// annotated tells whether a pod has an annotation key, or key=value.
func annotated(p *node.Pod, want string) bool {
	key, value, exact := strings.Cut(want, "=")
	got, has := p.Annotations[key]
	return has && (!exact || got == value)
}

// owner is the kind of a pod's controller: as the kubelet says, or as its labels give it away; CRI knows no owner references.
func owner(p *node.Pod) string {
	if p.Spec != nil && p.Spec.Owner != "" && p.Spec.Owner != "Node" { // a static pod's mirror
		return p.Spec.Owner
	}
	has := func(key string) bool { _, ok := p.Labels[key]; return ok }
	_, job := p.Job()
	switch {
	case job:
		return "Job"
	case has("statefulset.kubernetes.io/pod-name"):
		return "StatefulSet"
	case has("pod-template-generation") && has("controller-revision-hash"):
		return "DaemonSet"
	case has("pod-template-hash"):
		return "ReplicaSet"
	}
	return ""
}

// qos reads the class from the cgroup the kubelet made (kubernetes pkg/kubelet/cm/qos_container_manager_linux.go).
func qos(p *node.Pod) string {
	switch c := p.CgroupParent; {
	case strings.Contains(c, "besteffort"):
		return "besteffort"
	case strings.Contains(c, "burstable"):
		return "burstable"
	case strings.Contains(c, "kubepods"):
		return "guaranteed"
	}
	return ""
}

// role is what the host directories in a pod's containers give away: nobody has to set priorities right for it.
func role(p *node.Pod) string {
	r, _ := roleAt(p)
	return r
}

func roleAt(p *node.Pod) (role, mount string) {
	for _, c := range p.Containers {
		for _, m := range c.Mounts {
			switch at := path.Clean(m.Host); {
			case under(at, "/opt/cni/bin"), under(at, "/etc/cni/net.d"), m.Writable && at == "/etc/cni", m.Writable && at == "/opt/cni":
				return Network, at
			case strings.HasPrefix(at, "/var/lib/kubelet/plugins"), m.Writable && (at == "/var/lib/kubelet" || at == "/var/lib/kubelet/pods"):
				role, mount = Storage, at
			}
		}
	}
	return role, mount
}

func under(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// infer gives the tier of a pod nobody has placed, and why.
func infer(p *node.Pod) (tier, why string) {
	if static(p) {
		return Static, "a static pod (" + p.Annotations[source] + ")"
	}
	if r, mount := roleAt(p); r != "" {
		return r, "a container mounts " + mount
	}
	for _, key := range []string{"k8s-app", "app.kubernetes.io/name", "component"} {
		if p.Namespace == "kube-system" && p.Labels[key] == "kube-proxy" {
			return Network, "label " + key + "=kube-proxy"
		}
	}
	switch {
	case owner(p) == "DaemonSet":
		return DaemonSets, "a DaemonSet's"
	case p.Namespace == "kube-system":
		return KubeSystem, "namespace kube-system"
	default:
		return Workloads, "nothing says otherwise"
	}
}
