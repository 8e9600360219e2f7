package node

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// State is the node as quiesce sees it now.
type State struct {
	mu     sync.Mutex
	pods   map[string]*known
	listed time.Time
	wake   chan struct{}
}

type known struct {
	pod     *Pod
	touched time.Time // of the last event; zero: from lists only
}

// NewState knows nothing yet.
func NewState() *State {
	return &State{pods: map[string]*known{}, wake: make(chan struct{}, 1)}
}

// Wake gives a value after an event, at most one for many.
func (s *State) Wake() <-chan struct{} { return s.wake }

// Signal makes Wake give a value.
func (s *State) Signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Event is something that NRI told.
type Event struct {
	Kind      EventKind
	Pod       *Pod       // not kept: what is needed is copied
	Container *Container // with the Container kinds
	At        time.Time
}

// EventKind says what happened.
type EventKind int

// The kinds.
const (
	PodRun EventKind = iota
	PodStop
	PodRemove
	ContainerCreate
	ContainerStart
	ContainerStop // its process has ended: whatever state the event shows (containerd before 2.3 says running)
	ContainerRemove
)

// Apply takes one event.
func (s *State) Apply(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.Signal()
	if e.Kind == PodRemove {
		delete(s.pods, e.Pod.ID)
		return
	}
	k := s.pods[e.Pod.ID]
	if k == nil {
		p := e.Pod.clone()
		p.Ready, p.Created = true, orTime(p.Created, e.At)
		k = &known{pod: p}
	}
	p := k.pod.clone()
	switch e.Kind {
	case PodStop:
		p.Ready = false
	case PodRun, PodRemove:
		p.Creating = false
	case ContainerCreate, ContainerStart, ContainerStop, ContainerRemove:
		p.container(e)
	}
	s.pods[p.ID] = &known{pod: p, touched: e.At}
}

// container brings the pod's containers up to date.
func (p *Pod) container(e Event) {
	i := slices.IndexFunc(p.Containers, func(c Container) bool { return c.ID == e.Container.ID })
	if e.Kind == ContainerRemove {
		if i >= 0 {
			p.Containers = slices.Delete(p.Containers, i, i+1)
		}
		return
	}
	if i < 0 {
		c := *e.Container
		c.Created = orTime(c.Created, e.At)
		p.Containers = append(p.Containers, c)
		i = len(p.Containers) - 1
	}
	c := &p.Containers[i]
	if e.Kind == ContainerStop {
		c.State, c.Finished = Exited, orTime(c.Finished, e.At)
		return
	}
	c.State = Created
	if e.Kind == ContainerStart {
		c.State = Running
	}
}

// Synchronize takes what NRI lists when a plugin registers; it has no exited containers, so nothing is removed by it.
func (s *State) Synchronize(pods []*Pod, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.Signal()
	for _, p := range pods {
		if s.pods[p.ID] == nil {
			p.Ready = true
			s.pods[p.ID] = &known{pod: p, touched: at}
		}
	}
}

// Replace takes a complete list whose making began at the given time. What events told later is kept.
func (s *State) Replace(pods []*Pod, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[string]*known, len(pods))
	for _, p := range pods {
		next[p.ID] = &known{pod: p}
	}
	for id, k := range s.pods {
		if k.touched.After(began) {
			next[id] = k
		}
	}
	s.pods, s.listed = next, began
}

// Snapshot is the state at one moment, sorted by namespace and name.
func (s *State) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot{Listed: s.listed, Pods: make([]*Pod, 0, len(s.pods))}
	for _, k := range s.pods {
		snap.Pods = append(snap.Pods, k.pod)
	}
	slices.SortFunc(snap.Pods, func(a, b *Pod) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), strings.Compare(a.ID, b.ID))
	})
	return snap
}

// Snapshot is read only.
type Snapshot struct {
	Pods   []*Pod
	Listed time.Time // when the last complete list was begun; zero: never
}

// ByHandler groups the pods that are not stopped, or still have a running container, by handler.
func (s Snapshot) ByHandler() map[string][]*Pod {
	by := map[string][]*Pod{}
	for _, p := range s.Pods {
		if p.Ready || slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Active() }) {
			by[p.Handler] = append(by[p.Handler], p)
		}
	}
	return by
}

func orTime(t, or time.Time) time.Time {
	if t.IsZero() {
		return or
	}
	return t
}
