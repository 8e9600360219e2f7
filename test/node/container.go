package node

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerConfig is the CRI form of a container, with what a kubelet adds. message is the host file that
// becomes the container's termination message.
func (p Pod) containerConfig(c Container, message string) (*runtimeapi.ContainerConfig, error) {
	annotations, err := p.containerAnnotations(c)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name},
		Image:       &runtimeapi.ImageSpec{Image: c.Image},
		Command:     c.Command,
		Args:        c.Args,
		LogPath:     path.Join(c.Name, "0.log"),
		Annotations: annotations,
		Labels: map[string]string{
			"io.kubernetes.container.name": c.Name, "io.kubernetes.pod.name": p.Name,
			"io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID,
		},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2, OomScoreAdj: 1000},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: p.namespaces(), Privileged: c.Privileged,
			},
		},
		Mounts: []*runtimeapi.Mount{{HostPath: message, ContainerPath: terminationMessage}},
	}
	if c.Security != nil {
		config.Linux.SecurityContext = c.Security
		config.Linux.SecurityContext.NamespaceOptions = p.namespaces()
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: name, Value: []byte(c.Env[name])})
	}
	for _, m := range c.Mounts {
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{
			HostPath: m.Host, ContainerPath: m.Container, Readonly: m.ReadOnly, Propagation: m.Propagation,
		})
	}
	return config, setStopSignal(config, c.StopSignal)
}

// terminationMessage is where a container may write its last words.
const terminationMessage = "/dev/termination-log"

func setStopSignal(config *runtimeapi.ContainerConfig, name string) error {
	if name == "" {
		return nil
	}
	signal, ok := runtimeapi.Signal_value["SIGNAL_"+name]
	if !ok {
		return fmt.Errorf("configure container %s: stop signal %q is unknown", config.GetMetadata().GetName(), name)
	}
	config.StopSignal = runtimeapi.Signal(signal)
	return nil
}

// containerAnnotations are those that a kubelet gives to a container.
func (p Pod) containerAnnotations(c Container) (map[string]string, error) {
	spec, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode container %s: %w", c.Name, err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write(spec)
	annotations := map[string]string{
		"io.kubernetes.container.hash":                     strconv.FormatUint(uint64(hash.Sum32()), 16),
		"io.kubernetes.container.restartCount":             "0",
		"io.kubernetes.container.terminationMessagePath":   terminationMessage,
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.terminationGracePeriod":         strconv.Itoa(p.graceSeconds()),
	}
	if len(c.PreStop) > 0 {
		hook, err := json.Marshal(map[string]any{"exec": map[string]any{"command": c.PreStop}})
		if err != nil {
			return nil, fmt.Errorf("encode hook of %s: %w", c.Name, err)
		}
		annotations["io.kubernetes.container.preStopHandler"] = string(hook)
	}
	return annotations, nil
}

// graceSeconds is the grace period in whole seconds.
func (p Pod) graceSeconds() int { return int(p.Grace.Seconds()) }

func underscores(s string) string { return strings.ReplaceAll(s, "-", "_") }
