package drain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quiesce/plugin/internal/node"
)

// Placement is one pod in a plan.
type Placement struct {
	Pod   *node.Pod
	Tier  string
	Rank  int
	Wave  int           // within the tier, from 0: edges make more than one
	Grace time.Duration // what the pod asks for
	Skip  bool
	Why   []string

	Targets  []Target
	Sidecars []string // as annotated, or as the kubelet says

	fixed bool // by annotation or rule: edges do not move it
}

// Target is a container to stop.
type Target struct {
	Container node.Container
	Sidecar   int // 0: a main; sidecars count from 1 in the order of the pod
	PreStop   *Hook
}

// place puts one pod, edges aside. What cannot be read is passed over: the placement holds, and problems say what is wrong.
func (p *Policy) place(pod *node.Pod) (*Placement, error) {
	pl := &Placement{Pod: pod}
	rule, n := p.rule(pod)
	problems := errors.Join(p.placeTier(pl, rule, n), p.placeGrace(pl, rule, n))
	switch {
	case pod.Annotations[annSkip] == "true":
		pl.Skip = true
		pl.because("left alone: annotation " + annSkip)
	case pod.Annotations[annSkip] == "" && rule != nil && rule.Skip:
		pl.Skip = true
		pl.because("left alone: rule " + strconv.Itoa(n))
	}
	pl.targets()
	return pl, problems
}

func (pl *Placement) because(why string) { pl.Why = append(pl.Why, why) }

func (p *Policy) rule(pod *node.Pod) (*Rule, int) {
	for i := range p.Rules {
		if p.Rules[i].matches(pod) {
			return &p.Rules[i], i + 1
		}
	}
	return nil, 0
}

func (p *Policy) placeTier(pl *Placement, rule *Rule, n int) (problem error) {
	tier, why := infer(pl.Pod)
	if rule != nil && rule.Tier != "" {
		tier, why, pl.fixed = rule.Tier, "rule "+strconv.Itoa(n), true
	}
	if text := pl.Pod.Annotations[annTier]; text != "" {
		if _, _, err := p.tier(text); err != nil {
			problem = fmt.Errorf("pod %s: annotation %s: %w", pl.Pod, annTier, err)
		} else {
			tier, why, pl.fixed = text, "annotation "+annTier+": "+text, true
		}
	}
	var err error
	if pl.Tier, pl.Rank, err = p.tier(tier); err != nil {
		pl.Tier, problem = tier, errors.Join(problem, fmt.Errorf("pod %s: %w", pl.Pod, err))
	}
	pl.because(why)
	return problem
}

// podGrace and lifecycle are annotations the kubelet puts on containers (kubernetes pkg/kubelet/kuberuntime/labels.go).
const (
	podGrace     = "io.kubernetes.pod.terminationGracePeriod"
	lifecycle    = "io.kubernetes.container.preStopHandler"
	declaredPort = "io.kubernetes.container.ports"
)

// placeGrace takes the pod's own grace. One that is not set or zero means the default, never at once.
func (p *Policy) placeGrace(pl *Placement, rule *Rule, n int) error {
	pl.Grace = p.Grace
	for _, c := range pl.Pod.Containers {
		if s, err := strconv.ParseInt(c.Annotations[podGrace], 10, 32); err == nil && s > 0 {
			pl.Grace = time.Duration(s) * time.Second
		}
	}
	text, from := pl.Pod.Annotations[annGrace], "annotation "+annGrace
	if text == "" && rule != nil {
		text, from = rule.Grace, "rule "+strconv.Itoa(n)
	}
	if text == "" {
		return nil
	}
	g, err := parseGrace(text)
	if err != nil {
		return fmt.Errorf("pod %s: %s: %w", pl.Pod, from, err)
	}
	pl.Grace = g
	pl.because(fmt.Sprintf("grace %v: %s", g, from))
	return nil
}

// targets lists what runs in the pod.
func (pl *Placement) targets() {
	if pl.Pod.Annotations[annSidecars] == "" && pl.Pod.Spec != nil {
		pl.Sidecars = pl.Pod.Spec.Sidecars
	}
	for name := range strings.SplitSeq(pl.Pod.Annotations[annSidecars], ",") {
		if name = strings.TrimSpace(name); name != "" {
			pl.Sidecars = append(pl.Sidecars, name)
		}
	}
	for _, c := range pl.Pod.Containers {
		if c.State != node.Running && c.State != node.Unknown {
			continue
		}
		t := Target{Container: c, Sidecar: slices.Index(pl.Sidecars, c.Name) + 1}
		var err error
		if t.PreStop, err = parseHook(c.Annotations[lifecycle], c.Annotations[declaredPort]); err != nil {
			pl.because(fmt.Sprintf("container %s: its preStop hook is not understood: %v", c.Name, err))
		}
		pl.Targets = append(pl.Targets, t)
	}
}
