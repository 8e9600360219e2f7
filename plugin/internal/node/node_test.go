package node

import (
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func rules() *Rules {
	return &Rules{
		Label: "quiesce.internal/installer", Namespaces: []string{"kube-system"}, Jobs: []string{"*-install"},
		Images: []string{"*/quiesce-installer*"}, Undecided: time.Minute, Stuck: 30 * time.Minute,
		Paths: []string{"/", "/etc/containerd/config.toml", "/etc/containerd", "/usr/local/bin", "/var/lib/quiesce/inbox"},
	}
}

func pod(ns string, labels map[string]string, cs ...Container) *Pod {
	return &Pod{ID: "p", Namespace: ns, Name: "x", Labels: labels, Ready: true, Created: now.Add(-time.Hour), Containers: cs}
}

func container(state ContainerState, mounts ...Mount) Container {
	c := Container{ID: "c", Name: "c", State: state, Mounts: mounts, Created: now.Add(-time.Hour)}
	if state == Exited {
		c.Finished = now.Add(-time.Hour)
	}
	return c
}

func TestJudge(t *testing.T) {
	job := map[string]string{"job-name": "node1-spin-v2-install"}
	otherJob := map[string]string{"batch.kubernetes.io/job-name": "report"}
	label := map[string]string{"quiesce.internal/installer": "true"}
	root := Mount{Host: "/", Writable: true}
	young := container(Running)
	young.Created = now.Add(-time.Second)
	future := container(Running)
	future.Created = now.Add(time.Hour)
	justEnded := container(Exited)
	justEnded.Finished = now.Add(-time.Second)
	stopped := pod("kube-system", job, container(Running, root))
	stopped.Ready = false
	for name, tc := range map[string]struct {
		pod       *Pod
		inFlight  bool
		undecided bool
	}{
		"a Job's pod that mounts the root, anywhere":       {pod("default", otherJob, container(Running, root)), true, false},
		"and when its containers have ended":               {pod("default", otherJob, container(Exited, root)), true, false},
		"until its sandbox is stopped":                     {stopped, false, false},
		"the same, read-only":                              {pod("default", otherJob, container(Running, Mount{Host: "/"})), false, false},
		"containerd's config":                              {pod("default", otherJob, container(Running, Mount{"/etc/containerd", true})), true, false},
		"a parent of containerd's config":                  {pod("default", otherJob, container(Running, Mount{"/etc", true})), true, false},
		"a file in a shim directory":                       {pod("default", otherJob, container(Running, Mount{"/usr/local/bin/containerd-shim-x-v1", true})), true, false},
		"the inbox":                                        {pod("default", otherJob, container(Running, Mount{"/var/lib/quiesce/inbox", true})), true, false},
		"something else":                                   {pod("default", otherJob, container(Running, Mount{"/var/log", true})), false, false},
		"a name that only begins the same":                 {pod("default", otherJob, container(Running, Mount{"/etc/containerd2", true})), false, false},
		"no Job's pod that mounts the root":                {pod("default", nil, container(Running, root)), false, false},
		"a label in an ordinary namespace":                 {pod("default", label, container(Running)), false, false},
		"a Job's name in an allowed namespace":             {pod("kube-system", job, container(Running)), true, false},
		"a Job's young pod in any namespace":               {pod("default", otherJob, young), true, true},
		"a Job's pod between init container and container": {pod("default", otherJob, justEnded), true, true},
		"a Job's pod whose containers are all old":         {pod("default", otherJob, container(Running)), false, false},
		"an old service with the label":                    {pod("kube-system", label, container(Running)), false, false},
		"a young service with the label":                   {pod("kube-system", label, young), true, false},
		"a service whose init container has ended":         {pod("kube-system", label, justEnded, young), false, false},
		"a service with nothing running":                   {pod("kube-system", label, justEnded), false, false},
		"a Job's pod from before the clock was set back":   {pod("default", otherJob, future), false, false},
		"a service from before the clock was set back":     {pod("kube-system", label, future), false, false},
	} {
		if v := rules().Judge(tc.pod, now); v.InFlight != tc.inFlight || v.Undecided != tc.undecided {
			t.Errorf("%s: got %+v, want in flight %v, undecided %v", name, v, tc.inFlight, tc.undecided)
		}
	}
}

func TestImageGlob(t *testing.T) {
	c := container(Running)
	c.Images = []string{"registry.example/a/b/quiesce-installer:v1"}
	c.Created = now
	if v := rules().Judge(pod("kube-system", nil, c), now); !v.InFlight {
		t.Errorf("image not recognised: %+v", v)
	}
}

func TestStuck(t *testing.T) {
	p := pod("kube-system", map[string]string{"job-name": "x-install"}, container(Running))
	if v := rules().Judge(p, now); !v.Stuck || !v.InFlight {
		t.Errorf("an installer of one hour is %+v, want stuck and in flight", v)
	}
}

func TestListsDecideEventsComeSooner(t *testing.T) {
	s := NewState()
	s.Apply(Event{Kind: PodRun, Pod: &Pod{ID: "old", Namespace: "a", Name: "old"}, At: now.Add(-time.Minute)})
	s.Apply(Event{Kind: PodRun, Pod: &Pod{ID: "new", Namespace: "a", Name: "new"}, At: now.Add(time.Second)})
	s.Replace([]*Pod{{ID: "listed", Namespace: "a", Name: "listed", Ready: true}}, now)
	var ids []string
	for _, p := range s.Snapshot().Pods {
		ids = append(ids, p.ID)
	}
	if len(ids) != 2 || ids[0] != "listed" || ids[1] != "new" {
		t.Errorf("pods are %v, want the listed one and the one that began after the list", ids)
	}
}

func TestContainerEvents(t *testing.T) {
	s := NewState()
	p, c := &Pod{ID: "p", Handler: "spin"}, &Container{ID: "c", Name: "main"}
	at := now
	for _, k := range []EventKind{PodRun, ContainerCreate, ContainerStart, ContainerStop} {
		at = at.Add(time.Second)
		s.Apply(Event{Kind: k, Pod: p, Container: c, At: at})
	}
	snap := s.Snapshot()
	got := snap.Pods[0].Containers[0]
	if got.State != Exited || !got.Finished.Equal(at) {
		t.Errorf("container is %+v, want exited at %v", got, at)
	}
	s.Apply(Event{Kind: PodStop, Pod: p, At: at})
	if len(s.Snapshot().ByHandler()["spin"]) != 0 {
		t.Error("a stopped pod still uses its handler")
	}
	if len(snap.ByHandler()["spin"]) != 1 {
		t.Error("an old snapshot changed")
	}
	s.Apply(Event{Kind: PodRemove, Pod: p, At: at})
	if len(s.Snapshot().Pods) != 0 {
		t.Error("a removed pod is still there")
	}
	select {
	case <-s.Wake():
	default:
		t.Error("events did not wake")
	}
}
