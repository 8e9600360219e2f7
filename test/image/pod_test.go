package image

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/node"
	"quiesce/test/render"
)

// find is an object of a manifest.
func find(t *testing.T, verb, path, name string) render.Workload {
	t.Helper()
	all, err := render.Objects(t.Context(), verb, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.String() == name {
			w, err := o.Workload()
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
	}
	t.Fatalf("%s has no %s", path, name)
	return render.Workload{}
}

// podOf is the pod that a kubelet would make of a workload, with an image of ours.
func podOf(t *testing.T, w render.Workload, name, namespace, image string) node.Pod {
	t.Helper()
	spec := w.Spec.Template.Spec
	p := node.Pod{Namespace: namespace, Name: name, Labels: w.Spec.Template.Metadata.Labels, HostPID: spec.HostPID, HostNetwork: spec.HostNetwork}
	for _, c := range spec.InitContainers {
		p.InitContainers = append(p.InitContainers, containerOf(t, spec, c, image))
	}
	for _, c := range spec.Containers {
		p.Containers = append(p.Containers, containerOf(t, spec, c, image))
	}
	return p
}

func containerOf(t *testing.T, spec render.PodSpec, c render.Container, image string) node.Container {
	t.Helper()
	out := node.Container{Name: c.Name, Image: image, Args: c.Args, Security: securityOf(t, c.SecurityContext), Env: map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}}
	for _, m := range c.VolumeMounts {
		for _, v := range spec.Volumes {
			if v.Name != m.Name {
				continue
			}
			mount := node.Mount{Host: v.HostPath.Path, Container: m.MountPath, ReadOnly: m.ReadOnly}
			if m.MountPropagation == "HostToContainer" {
				mount.Propagation = runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
			}
			out.Mounts = append(out.Mounts, mount)
		}
	}
	return out
}

// securityOf is what a kubelet makes of a security context (kubernetes pkg/kubelet/kuberuntime/security_context.go).
func securityOf(t *testing.T, s render.Security) *runtimeapi.LinuxContainerSecurityContext {
	t.Helper()
	if s.SeccompProfile.Type != "RuntimeDefault" || s.AllowPrivilegeEscalation == nil {
		t.Fatalf("the test cannot make this: %+v", s)
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		Privileged: s.Privileged, ReadonlyRootfs: s.ReadOnlyRootFilesystem, NoNewPrivs: !*s.AllowPrivilegeEscalation,
		Capabilities: &runtimeapi.Capability{AddCapabilities: s.Capabilities.Add, DropCapabilities: s.Capabilities.Drop},
		Seccomp:      &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	if s.RunAsUser != nil {
		out.RunAsUser = &runtimeapi.Int64Value{Value: *s.RunAsUser}
	}
	if s.RunAsGroup != nil {
		out.RunAsGroup = &runtimeapi.Int64Value{Value: *s.RunAsGroup}
	}
	if s.RunAsNonRoot && (s.RunAsUser == nil || *s.RunAsUser == 0) {
		t.Fatal("the kubelet refuses a container that is to be anybody but root and is root")
	}
	return out
}
