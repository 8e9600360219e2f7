package nri

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// grace is the annotation in which the kubelet keeps a pod's grace, in seconds (kubernetes pkg/kubelet/kuberuntime/labels.go).
const grace = "io.kubernetes.pod.terminationGracePeriod"

// stopTimeout is what runc's systemd cgroup driver makes the scope's TimeoutStopUSec of (runc docs/systemd.md).
const stopTimeout = "org.systemd.property.TimeoutStopUSec"

// slack is what systemd waits beyond a container's grace: the drain kills first.
const slack = 5

// adjust gives a container's scope the time its pod asks for, where systemd keeps the cgroups; nil elsewhere.
// Without it systemd kills what a shutdown finds still running after 90 s, whatever the grace (kubernetes#77873).
func adjust(c *api.Container) *api.ContainerAdjustment {
	seconds, err := strconv.ParseInt(c.GetAnnotations()[grace], 10, 64)
	if err != nil || seconds <= 0 || seconds > 1<<31 || !systemdCgroup(c.GetLinux().GetCgroupsPath()) {
		return nil
	}
	if _, set := c.GetAnnotations()[stopTimeout]; set {
		return nil
	}
	a := &api.ContainerAdjustment{}
	a.AddAnnotation(stopTimeout, fmt.Sprintf("uint64 %d", (seconds+slack)*1_000_000))
	return a
}

// systemdCgroup tells slice:prefix:name, which only the systemd driver takes (runc libcontainer/specconv).
func systemdCgroup(path string) bool {
	return strings.Count(path, ":") == 2 && !strings.Contains(path, "/")
}

// hostNetwork tells whether a sandbox has no network namespace of its own.
func hostNetwork(s *api.PodSandbox) bool {
	for _, ns := range s.GetLinux().GetNamespaces() {
		if ns.GetType() == "network" {
			return false
		}
	}
	return len(s.GetLinux().GetNamespaces()) > 0
}
