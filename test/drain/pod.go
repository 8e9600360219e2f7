package drain

import (
	"crypto/rand"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod is what the kubelet is to keep running.
type Pod struct {
	Namespace, Name, UID string
	Handler              string
	Labels, Annotations  map[string]string
	Source               string // config.source; api if empty
	Grace                int
	HostNetwork          bool
	SharedPID            bool
	Containers           []Container
}

// Container of a Pod.
type Container struct {
	Name       string
	Image      string
	Argv       []string
	Mounts     map[string]string // host → container
	PreStop    string            // the handler as JSON
	Ports      string            // the ports as JSON
	StopSignal string
	User       int64 // root if zero
}

// Image has the victim.
const Image = "localhost/victim:1"

// Evidence is where victims write, in the node.
const Evidence = "/var/lib/evidence"

// Victim is a pod with one victim container called main.
func Victim(ns, name string, grace int, args ...string) Pod {
	return Pod{
		Namespace: ns, Name: name, UID: uid(), Grace: grace, Labels: map[string]string{"app": name}, Annotations: map[string]string{},
		Containers: []Container{VictimContainer("main", name, args...)},
	}
}

// VictimContainer writes to a file named after its log.
func VictimContainer(name, log string, args ...string) Container {
	return Container{
		Name: name, Image: Image, Argv: append([]string{"/victim", "-log", "/evidence/" + log}, args...),
		Mounts: map[string]string{Evidence: "/evidence"},
	}
}

func uid() string { return strings.ToLower(rand.Text()[:16]) }

func (p Pod) namespaces() *runtimeapi.NamespaceOption {
	o := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if p.SharedPID {
		o.Pid = runtimeapi.NamespaceMode_POD
	}
	if p.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	return o
}
