package render

// Workload is a DaemonSet or a Job, as far as tests look at it.
type Workload struct {
	Spec struct {
		MinReadySeconds int
		BackoffLimit    *int
		UpdateStrategy  struct{ RollingUpdate struct{ MaxUnavailable any } }
		Template        struct {
			Metadata struct{ Labels map[string]string }
			Spec     PodSpec
		}
	}
}

// PodSpec is the spec of its pods.
type PodSpec struct {
	HostPID, HostNetwork, HostIPC bool
	PriorityClassName             string
	NodeSelector                  map[string]string
	Tolerations, ImagePullSecrets []any
	Affinity                      any
	AutomountServiceAccountToken  *bool
	InitContainers, Containers    []Container
	Volumes                       []struct {
		Name     string
		HostPath struct{ Path string }
	}
}

// Container is a container of a pod.
type Container struct {
	Name, Image, ImagePullPolicy string
	Args                         []string
	Resources                    any
	SecurityContext              Security
	VolumeMounts                 []struct {
		Name, MountPath, MountPropagation string
		ReadOnly                          bool
	}
}

// Security is a container's security context.
type Security struct {
	RunAsUser, RunAsGroup    *int64
	RunAsNonRoot, Privileged bool
	AllowPrivilegeEscalation *bool
	ReadOnlyRootFilesystem   bool
	Capabilities             struct{ Add, Drop []string }
	SeccompProfile           struct{ Type string }
	AppArmorProfile          struct{ Type string }
}

// Workload reads an object as one.
func (o Object) Workload() (w Workload, err error) { return w, o.Into(&w) }
