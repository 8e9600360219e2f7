package nri

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
)

func TestAdjust(t *testing.T) {
	for name, tc := range map[string]struct {
		path, grace, want string
	}{
		"systemd":      {"kubepods-pod1.slice:cri-containerd:abc", "72", "uint64 77000000"},
		"cgroupfs":     {"/kubepods/pod1/abc", "72", ""},
		"no grace":     {"kubepods-pod1.slice:cri-containerd:abc", "", ""},
		"not a number": {"kubepods-pod1.slice:cri-containerd:abc", "1; x", ""},
		"zero":         {"kubepods-pod1.slice:cri-containerd:abc", "0", ""},
	} {
		c := &api.Container{Annotations: map[string]string{grace: tc.grace}, Linux: &api.LinuxContainer{CgroupsPath: tc.path}}
		if got := adjust(c).GetAnnotations()[stopTimeout]; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
