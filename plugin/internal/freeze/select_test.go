package freeze

import (
	"strings"
	"testing"

	"quiesce/plugin/internal/node"
)

func TestChoose(t *testing.T) {
	mounts := func(host string) []node.Container {
		return []node.Container{{Name: "c", Mounts: []node.Mount{{Host: host}}}}
	}
	for name, c := range map[string]struct {
		pod    node.Pod
		chosen bool
		why    string // of an infrastructure pod
	}{
		"job":             {pod: node.Pod{Labels: map[string]string{"job-name": "x"}}, chosen: true},
		"bare":            {pod: node.Pod{Annotations: map[string]string{configSource: "api"}}, chosen: true},
		"without kubelet": {pod: node.Pod{}, chosen: true},
		"deployment":      {pod: node.Pod{Labels: map[string]string{"pod-template-hash": "x"}}},
		"daemon set":      {pod: node.Pod{Labels: map[string]string{"controller-revision-hash": "x"}}},
		"static":          {pod: node.Pod{Annotations: map[string]string{configSource: "file"}}},
		"mirror":          {pod: node.Pod{Annotations: map[string]string{configMirror: "x", configSource: "api"}}},
		"dns":             {pod: node.Pod{Namespace: "kube-system"}, why: "namespace kube-system"},
		"system job":      {pod: node.Pod{Namespace: "kube-system", Labels: map[string]string{"job-name": "x"}}, chosen: true},
		"csi":             {pod: node.Pod{Containers: mounts("/var/lib/kubelet/plugins/csi.example")}, why: "mounts /var/lib/kubelet/plugins/csi.example"},
		"cni":             {pod: node.Pod{Containers: mounts("/opt/cni/bin/")}, why: "mounts /opt/cni/bin"},
		"root reader":     {pod: node.Pod{Containers: mounts("/")}, chosen: true},
		"volume":          {pod: node.Pod{Containers: mounts("/var/lib/kubelet/pods/x/volumes/y")}, chosen: true},
		"similar name":    {pod: node.Pod{Containers: mounts("/opt/cnix")}, chosen: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := DefaultRules()
			chosen, why := r.Choose(&c.pod)
			if chosen != c.chosen || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("chosen %v, %q; want %v, %q", chosen, why, c.chosen, c.why)
			}
		})
	}
}
