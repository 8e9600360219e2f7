package drain

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"quiesce/plugin/internal/node"
)

// Tier is a rank with a name: pods of a lower rank stop first.
type Tier struct {
	Name string
	Rank int
}

// The default tiers. Network comes after all whose pods need it to say goodbye, static pods last: the node's own.
const (
	Workloads  = "workloads"
	KubeSystem = "kube-system"
	DaemonSets = "daemonsets"
	Storage    = "storage"
	Network    = "network"
	Static     = "static"
)

// DefaultTiers are those of the kubelet's world without its priorities, which CRI does not know.
func DefaultTiers() []Tier {
	return []Tier{{Workloads, 10}, {KubeSystem, 20}, {DaemonSets, 30}, {Storage, 40}, {Network, 50}, {Static, 60}}
}

// DefaultEdges keep the order inside the control plane: what writes to etcd stops before it does.
func DefaultEdges() []Edge {
	component := func(name string) Selector {
		return Selector{namespace: "kube-system", terms: []term{{key: "component", value: name}}, text: "kube-system/component=" + name}
	}
	edge := func(first, then string) Edge { return Edge{First: component(first), Then: component(then)} }
	return []Edge{
		edge("kube-scheduler", "kube-apiserver"), edge("kube-controller-manager", "kube-apiserver"), edge("kube-apiserver", "etcd"),
	}
}

// Limits of every drain.
const (
	Floor     = 2 * time.Second  // the least grace, as the kubelet's minimumGracePeriodInSeconds
	KillSlack = 10 * time.Second // how long a container may outlive SIGKILL before it is passed by
)

// Policy is what the operator sets.
type Policy struct {
	Tiers    []Tier
	Rules    []Rule
	Edges    []Edge
	Grace    time.Duration // of pods that do not say
	Deadline time.Duration // of a whole drain

	KeepSandboxes bool // leave the pods' sandboxes as they are

	MountWait time.Duration // how long a tier's CSI and network volumes are waited for; 0: they are not

	Hooks []NodeHook // in the order in which they run
}

// DefaultPolicy is complete.
func DefaultPolicy() Policy {
	return Policy{Tiers: DefaultTiers(), Edges: DefaultEdges(), Grace: 30 * time.Second, Deadline: 10 * time.Minute}
}

// Rule places pods that match all of its conditions; the first rule that matches counts.
type Rule struct {
	Selector    *Selector `toml:"selector"`    // [NAMESPACE/]labels
	Annotation  string    `toml:"annotation"`  // key or key=value
	Handler     *string   `toml:"handler"`     // CRI runtime handler; "" is the default one
	QoS         string    `toml:"qos"`         // guaranteed, burstable or besteffort
	Static      *bool     `toml:"static"`      // a manifest of the node's
	HostNetwork *bool     `toml:"hostNetwork"` // it has the node's network
	Role        string    `toml:"role"`        // storage or network, by what containers mount
	Owner       string    `toml:"owner"`       // DaemonSet, ReplicaSet, StatefulSet, Job, by labels
	Priority    *int32    `toml:"priority"`    // at least this; only where the kubelet tells it

	Tier  string `toml:"tier"`  // name or rank; empty: as without the rule
	Grace string `toml:"grace"` // instead of the pod's own
	Skip  bool   `toml:"skip"`  // leave these pods alone
}

// Edge says that the pods of First are stopped before those of Then.
type Edge struct {
	First Selector `toml:"first"` // [NAMESPACE/]labels
	Then  Selector `toml:"then"`  // the same
}

// Validate says what a policy lacks.
func (p *Policy) Validate() error {
	var errs error
	for i, r := range p.Rules {
		if _, _, err := p.tier(r.Tier); r.Tier != "" && err != nil {
			errs = errors.Join(errs, fmt.Errorf("rule %d: %w", i+1, err))
		}
		if _, err := parseGrace(r.Grace); r.Grace != "" && err != nil {
			errs = errors.Join(errs, fmt.Errorf("rule %d: %w", i+1, err))
		}
		if !slices.Contains([]string{"", Storage, Network}, r.Role) {
			errs = errors.Join(errs, fmt.Errorf("rule %d: role %q must be storage or network", i+1, r.Role))
		}
		if !slices.Contains([]string{"", "guaranteed", "burstable", "besteffort"}, r.QoS) {
			errs = errors.Join(errs, fmt.Errorf("rule %d: qos %q must be guaranteed, burstable or besteffort", i+1, r.QoS))
		}
	}
	for i, h := range p.Hooks {
		if err := p.validHook(h); err != nil {
			errs = errors.Join(errs, fmt.Errorf("hook %d: %w", i+1, err))
		}
	}
	if p.Deadline < Floor {
		errs = errors.Join(errs, fmt.Errorf("deadline: must be at least %v", Floor))
	}
	return errs
}

// tier reads a tier's name or rank.
func (p *Policy) tier(text string) (name string, rank int, err error) {
	for _, t := range p.Tiers {
		if t.Name == text {
			return t.Name, t.Rank, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1000 {
		return "", 0, fmt.Errorf("tier %q is neither a known name nor a number from 0 to 1000", text)
	}
	return p.name(n), n, nil
}

// name is the name of a rank.
func (p *Policy) name(rank int) string {
	for _, t := range p.Tiers {
		if t.Rank == rank {
			return t.Name
		}
	}
	return strconv.Itoa(rank)
}

// parseGrace reads seconds, or a duration as in Go.
func parseGrace(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.ParseInt(text, 10, 32); nerr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d <= 0 || d > 24*time.Hour {
		return 0, fmt.Errorf("grace %q must be a time of more than 0, such as 90 or 1m30s", text)
	}
	return d, nil
}

func (r *Rule) matches(p *node.Pod) bool {
	if r.Selector != nil && !r.Selector.Matches(p) || r.Annotation != "" && !annotated(p, r.Annotation) {
		return false
	}
	if r.Handler != nil && *r.Handler != p.Handler || r.QoS != "" && r.QoS != qos(p) {
		return false
	}
	if r.Static != nil && *r.Static != static(p) || r.HostNetwork != nil && *r.HostNetwork != p.HostNetwork {
		return false
	}
	if r.Priority != nil && (p.Spec == nil || p.Spec.Priority == nil || *p.Spec.Priority < *r.Priority) {
		return false
	}
	return (r.Role == "" || r.Role == role(p)) && (r.Owner == "" || r.Owner == owner(p))
}

// Selection says which pods a drain is about. The zero value is none.
type Selection struct {
	All      bool      `json:"all,omitempty"`
	Handler  *string   `json:"handler,omitempty"`
	Handlers []string  `json:"handlers,omitempty"` // of staged changes
	Selector *Selector `json:"selector,omitempty"`
	Pod      string    `json:"pod,omitempty"` // namespace/name, name may be a glob
}

// Matches tells whether a pod is selected.
func (s Selection) Matches(p *node.Pod) bool {
	switch {
	case s.All:
		return true
	case s.Handler != nil:
		return p.Handler == *s.Handler
	case len(s.Handlers) > 0:
		return slices.Contains(s.Handlers, p.Handler)
	case s.Selector != nil:
		return s.Selector.Matches(p)
	case s.Pod != "":
		ok, err := path.Match(s.Pod, p.String())
		return ok && err == nil
	}
	return false
}

// String is for people.
func (s Selection) String() string {
	switch {
	case s.All:
		return "all pods"
	case s.Handler != nil && *s.Handler == "":
		return "pods of the default handler"
	case s.Handler != nil:
		return "pods of handler " + *s.Handler
	case len(s.Handlers) > 0:
		return "pods of handler " + strings.Join(s.Handlers, ", ")
	case s.Selector != nil:
		return "pods " + s.Selector.String()
	case s.Pod != "":
		return "pod " + s.Pod
	}
	return "no pods"
}
