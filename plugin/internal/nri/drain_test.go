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

func TestCanRefusePods(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.7.35": true, "2.0.9": false, "v2.1.9": false, "v2.2.5": false, "v2.2.6": true, "2.3.2": false, "v2.3.7": true, "v2.4.2": true,
		"v2.4.0-beta.1": true, "": false, "3.0.0": false, "1.6.1": false,
	} {
		if got := canRefusePods("containerd", version); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
	if canRefusePods("cri-o", "1.30.0") {
		t.Error("cri-o")
	}
}
