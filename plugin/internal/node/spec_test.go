package node

import (
	"maps"
	"testing"
	"time"
)

// TestAKnownJobPodIsDecidedAtOnce: what the kubelet tells of containers that are not made yet decides.
func TestAKnownJobPodIsDecidedAtOnce(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &Rules{Paths: []string{"/", "/etc/containerd"}, Undecided: time.Minute, Stuck: time.Hour}
	main := Container{Name: "main"}
	root := Container{Name: "main", Mounts: []Mount{{Host: "/", Writable: true}}}
	for name, c := range map[string]struct {
		spec      *Spec
		made      []Container
		inFlight  bool
		undecided bool
	}{
		"no kubelet":                      {nil, []Container{main}, true, true},
		"harmless":                        {&Spec{Containers: []Container{main}}, nil, false, false},
		"will mount the root":             {&Spec{Containers: []Container{{Name: "first"}, root}}, nil, true, false},
		"a claim that may be the root":    {&Spec{Containers: []Container{main}, Opaque: true}, nil, true, true},
		"a claim that is not the root":    {&Spec{Containers: []Container{main}, Opaque: true}, []Container{main}, false, false},
		"a claim that turned out to be":   {&Spec{Containers: []Container{main}, Opaque: true}, []Container{root}, true, false},
		"a kubelet that knows it no more": {nil, nil, true, true},
	} {
		p := &Pod{Ready: true, Created: now, Labels: map[string]string{"job-name": "x"}, Containers: c.made, Spec: c.spec}
		if v := r.Judge(p, now.Add(time.Second)); v.InFlight != c.inFlight || v.Undecided != c.undecided {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestAWaiterIsNoInstaller: the gate does not wait for a pod that waits for the gate.
func TestAWaiterIsNoInstaller(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &Rules{
		Namespaces: []string{"kube-system"}, Images: []string{"*quiesce-installer*"}, Jobs: []string{"*-install"}, Label: "installer",
		Paths: []string{"/", "/stage/inbox"}, Results: "/stage/results", Undecided: time.Minute, Stuck: time.Hour,
	}
	for name, c := range map[string]struct {
		mounts   []Mount
		labels   map[string]string
		inFlight bool
	}{
		"waits":            {[]Mount{{Host: "/stage/results"}}, nil, false},
		"could write them": {[]Mount{{Host: "/stage/results", Writable: true}}, nil, true},
		"installs too":     {[]Mount{{Host: "/stage/results"}, {Host: "/stage/inbox", Writable: true}}, nil, true},
		"says it installs": {[]Mount{{Host: "/stage/results"}}, map[string]string{"installer": "true"}, true},
		"mounts nothing":   {nil, nil, true},
	} {
		p := &Pod{
			Ready: true, Created: now, Namespace: "kube-system", Labels: map[string]string{"job-name": "x-install"},
			Containers: []Container{{Name: "main", Images: []string{"localhost/quiesce-installer:1"}, Mounts: c.mounts}},
		}
		maps.Copy(p.Labels, c.labels)
		if v := r.Judge(p, now.Add(time.Second)); v.InFlight != c.inFlight {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
