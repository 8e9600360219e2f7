package drain

import (
	"slices"
	"time"
)

// Schema is the version of State on disk.
const Schema = 1

// Phase of a drain.
type Phase string

// The phases.
const (
	Draining    Phase = "draining"
	Drained     Phase = "drained"
	Interrupted Phase = "interrupted" // its program ended before it had
	Ended       Phase = "ended"       // the node is in use again; what is left is the report
)

// Outcome is how a container ended.
type Outcome string

// The outcomes; empty: not yet.
const (
	Exited      Outcome = "exited"             // within its time
	Killed      Outcome = "killed at deadline" // SIGKILL
	OOM         Outcome = "oom"
	Unkillable  Outcome = "unkillable"        // alive after SIGKILL and KillSlack
	Vanished    Outcome = "vanished"          // the runtime no longer knows it
	AlreadyGone Outcome = "already gone"      // ended before it was signalled
	CodeLost    Outcome = "exited, code lost" // the runtime was not there to see it
)

// Hard tells whether the container did not end by itself in time.
func (o Outcome) Hard() bool { return o == Killed || o == Unkillable }

// State is a drain: what is to be done, what was done. It is the report, too.
type State struct {
	Schema    int       `json:"schema"`
	ID        string    `json:"id"`
	Boot      string    `json:"boot"` // boot id of the kernel
	Trigger   string    `json:"trigger"`
	Selection Selection `json:"selection"`
	Phase     Phase     `json:"phase"`
	Began     time.Time `json:"began"`
	Deadline  time.Time `json:"deadline"`
	Finished  time.Time `json:"finished,omitzero"` // when the last step was done
	EndedAt   time.Time `json:"ended,omitzero"`
	Current   int       `json:"current"`           // index into Steps
	Kubelet   string    `json:"kubelet,omitempty"` // the unit that the drain stopped

	Whole         bool `json:"whole,omitempty"` // every step has been done once: the fence is for all of the selection
	KeepSandboxes bool `json:"keep_sandboxes,omitempty"`

	Binding bool `json:"binding,omitempty"` // nothing puts it off: services stop, whatever hooks say

	Steps []*StepRecord `json:"steps"`
	Pods  []*PodRecord  `json:"pods"`
	Hooks []*HookRecord `json:"hooks,omitempty"`
	Notes []string      `json:"notes,omitempty"`
}

// StepRecord is a tier, or a wave of one.
type StepRecord struct {
	Name  string    `json:"name"`
	Rank  int       `json:"rank"`
	Wave  int       `json:"wave"`
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`

	MountsWaited time.Duration `json:"mounts_waited,omitempty"` // for volumes of its pods to be unmounted
	MountsLeft   []string      `json:"mounts_left,omitempty"`   // that were passed by
}

// PodRecord is a pod of a drain.
type PodRecord struct {
	ID        string        `json:"id"`
	UID       string        `json:"uid"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Handler   string        `json:"handler"`
	IP        string        `json:"ip,omitempty"`
	Step      int           `json:"step"`
	Why       []string      `json:"why"`
	Asked     time.Duration `json:"grace_asked"`
	Given     time.Duration `json:"grace_given"` // less than asked if the drain's deadline is too near
	Began     time.Time     `json:"began,omitzero"`
	Deadline  time.Time     `json:"deadline,omitzero"`
	Stopped   time.Time     `json:"sandbox_stopped,omitzero"`
	Error     string        `json:"error,omitempty"` // of its sandbox

	HostNetwork bool `json:"host_network,omitempty"`
	boxed       bool // its sandbox is being stopped

	Containers []*ContainerRecord `json:"containers"`
}

// String names the pod as kubectl does.
func (p *PodRecord) String() string { return p.Namespace + "/" + p.Name }

// ContainerRecord is a container of a drain.
type ContainerRecord struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Sidecar int    `json:"sidecar,omitempty"`
	Hook    *Hook  `json:"hook,omitempty"`

	HookBegan time.Time `json:"hook_began,omitzero"`
	HookEnded time.Time `json:"hook_ended,omitzero"`
	HookError string    `json:"hook_error,omitempty"`

	Signal    time.Time `json:"signal,omitzero"`     // on disk before the stop signal is asked for
	Signalled bool      `json:"signalled,omitempty"` // it was sent: there is no second one
	Deadline  time.Time `json:"deadline,omitzero"`
	Kill      time.Time `json:"kill,omitzero"`
	Exit      time.Time `json:"exit,omitzero"` // of its process if it was seen to end, else as the runtime has it
	Code      *int      `json:"code,omitempty"`
	Outcome   Outcome   `json:"outcome,omitempty"`
	Note      string    `json:"note,omitempty"`

	Reach Reach `json:"reach,omitzero"`
}

// Active tells whether a fence is due, in the boot given.
func (s *State) Active(boot string) bool {
	return s != nil && s.Boot == boot && s.Phase != Ended
}

// NewState makes the records of a plan.
func NewState(plan Plan, sel Selection, id, boot, trigger string, now time.Time, deadline time.Duration) *State {
	s := &State{
		Schema: Schema, ID: id, Boot: boot, Trigger: trigger, Selection: sel, Phase: Draining,
		Began: now.UTC(), Deadline: now.UTC().Add(deadline),
	}
	for i, step := range plan.Steps {
		s.Steps = append(s.Steps, &StepRecord{Name: step.Name(), Rank: step.Rank, Wave: step.Wave})
		for _, pl := range step.Pods {
			s.Pods = append(s.Pods, record(pl, i))
		}
	}
	return s
}

func record(pl *Placement, step int) *PodRecord {
	p := &PodRecord{
		ID: pl.Pod.ID, UID: pl.Pod.UID, Namespace: pl.Pod.Namespace, Name: pl.Pod.Name, Handler: pl.Pod.Handler, IP: pl.Pod.IP,
		Step: step, Why: pl.Why, Asked: pl.Grace, HostNetwork: pl.Pod.HostNetwork,
	}
	for _, t := range pl.Targets {
		p.Containers = append(p.Containers, &ContainerRecord{ID: t.Container.ID, Name: t.Container.Name, Sidecar: t.Sidecar, Hook: t.PreStop})
	}
	return p
}

// knows tells whether a container is in the record.
func (s *State) knows(id string) bool {
	return slices.ContainsFunc(s.Pods, func(p *PodRecord) bool {
		return slices.ContainsFunc(p.Containers, func(c *ContainerRecord) bool { return c.ID == id })
	})
}

// step lists the pods of a step that are not done.
func (s *State) step(i int) (out []*PodRecord) {
	for _, p := range s.Pods {
		if p.Step == i && !p.done(s.KeepSandboxes) {
			out = append(out, p)
		}
	}
	return out
}

// ended notes when a container ended: the shim notes it some time after its process has, which the next tier does not
// wait for.
func (c *ContainerRecord) ended(at time.Time) {
	if c.Exit.IsZero() || at.Before(c.Exit) {
		c.Exit = at.UTC()
	}
}

func (p *PodRecord) done(keepSandbox bool) bool {
	for _, c := range p.Containers {
		if c.Outcome == "" {
			return false
		}
	}
	return keepSandbox || p.boxed || !p.Stopped.IsZero() || p.Error != ""
}

// Clone is a deep copy for whoever looks on.
func (s *State) Clone() *State {
	c := *s
	c.Steps, c.Pods, c.Hooks, c.Notes = nil, nil, nil, slices.Clone(s.Notes)
	for _, h := range s.Hooks {
		h := *h
		c.Hooks = append(c.Hooks, &h)
	}
	for _, st := range s.Steps {
		st := *st
		c.Steps = append(c.Steps, &st)
	}
	for _, p := range s.Pods {
		p := *p
		cs := p.Containers
		p.Containers = nil
		for _, ct := range cs {
			ct := *ct
			p.Containers = append(p.Containers, &ct)
		}
		c.Pods = append(c.Pods, &p)
	}
	return &c
}

// Extend adds what runs again although the drain was done, and makes it be done once more for that. It tells whether
// there was anything.
func (s *State) Extend(plan Plan, now time.Time, deadline time.Duration) bool {
	first := len(s.Steps)
	for _, step := range plan.Steps {
		i := slices.IndexFunc(s.Steps, func(r *StepRecord) bool { return r.Rank == step.Rank && r.Wave == step.Wave })
		if i < 0 {
			s.Steps = append(s.Steps, &StepRecord{Name: step.Name(), Rank: step.Rank, Wave: step.Wave})
			i = len(s.Steps) - 1
		}
		for _, pl := range step.Pods {
			if s.straggler(pl, i) {
				first = min(first, i)
			}
		}
	}
	if first == len(s.Steps) {
		return false
	}
	s.Current, s.Phase = first, Draining
	if d := now.UTC().Add(deadline); d.After(s.Deadline) {
		s.Deadline = d
	}
	return true
}
