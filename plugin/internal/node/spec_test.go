package node

import (
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
