package drain

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
)

// end is how one container ended, by itself and by CRI.
type end struct {
	Pod      string      `json:"pod"`
	Tier     int         `json:"tier"`
	Grace    int         `json:"grace_s"`
	Signals  []time.Time `json:"signals"`               // as the container wrote them down
	Said     time.Time   `json:"exit_written,omitzero"` // by the container, before it ended by itself
	Exit     time.Time   `json:"exit"`                  // the report's, of its process
	Finished time.Time   `json:"finished"`              // CRI's, some time after
	Code     int32       `json:"exit_code"`             // CRI's
	Outcome  string      `json:"outcome"`               // the report's
	Stopped  time.Time   `json:"sandbox_stopped"`       // the report's
}

// slack is how much later than it was sent a container may have written a signal down.
const slack = 100 * time.Millisecond

func (e end) killed() bool { return e.Said.IsZero() }

// ends collects what the containers, CRI and the report say.
func ends(ctx context.Context, l *lab.Lab, r Report, pods []Pod) (out []end, err error) {
	cri, err := l.CRI(ctx)
	if err != nil {
		return nil, err
	}
	reported := map[string]ReportPod{}
	for _, p := range r.Pods {
		reported[p.Name] = p
	}
	list, err := containers(ctx, l, nil)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, ct := range list {
		ids[podName(ct)] = ct.GetId()
	}
	for _, p := range pods {
		e := end{Pod: p.Name, Grace: p.Grace, Stopped: reported[p.Name].Stopped}
		if _, err := fmt.Sscanf(p.Name, "t%d-", &e.Tier); err != nil {
			return nil, fmt.Errorf("read tier of %s: %w", p.Name, err)
		}
		for _, c := range reported[p.Name].Containers {
			e.Outcome, e.Exit = c.Outcome, c.Exit
		}
		if err := e.read(l); err != nil {
			return nil, err
		}
		s, err := cri.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: ids[p.Name]})
		if err != nil {
			return nil, fmt.Errorf("ask for container of %s: %w", p.Name, err)
		}
		e.Finished, e.Code = time.Unix(0, s.GetStatus().GetFinishedAt()).UTC(), s.GetStatus().GetExitCode()
		out = append(out, e)
	}
	return out, nil
}

// read takes over what the container wrote.
func (e *end) read(l *lab.Lab) error {
	got, err := Signals(l, e.Pod)
	if err != nil {
		return err
	}
	for _, s := range got {
		e.Signals = append(e.Signals, s.At.UTC())
	}
	all, err := Events(l, e.Pod)
	if err != nil {
		return err
	}
	if last := all[len(all)-1]; last.What == "exit" {
		e.Said = last.At.UTC()
	}
	return nil
}

// judge compares the ends with what was promised.
func judge(r Report, ends []end) (o Order, problems []string) {
	bad := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	o = Order{Pods: len(r.Pods), Tiers: len(r.Steps), Makespan: r.Finished.Sub(r.Began).Seconds()}
	tiers := make([]tier, Tiers)
	for _, e := range ends {
		o.MaxSignals = max(o.MaxSignals, len(e.Signals))
		if len(e.Signals) != 1 {
			bad("%s got %d signals", e.Pod, len(e.Signals))
			continue
		}
		if e.Exit.Before(e.Said) || e.Exit.After(e.Finished) {
			bad("%s ended at %v by the report; it said so itself at %v, CRI at %v", e.Pod, e.Exit, e.Said, e.Finished)
		}
		lived := e.Exit.Sub(e.Signals[0])
		if e.killed() {
			o.HardKills++
			budget := min(time.Duration(e.Grace)*time.Second, r.Deadline.Sub(e.Signals[0]))
			if lived < budget-slack {
				o.Early++
				bad("%s was killed %v after its signal, its grace is %d s", e.Pod, lived, e.Grace)
			}
		}
		if want := map[bool]string{true: "killed at deadline", false: "exited"}[e.killed()]; e.Outcome != want {
			bad("%s: the report says %q, it is %q", e.Pod, e.Outcome, want)
		}
		tiers[e.Tier-1].add(e)
	}
	for i, t := range tiers {
		o.Floor += t.longest.Seconds()
		if i > 0 && t.first.Before(tiers[i-1].last) {
			o.Inversions++
			bad("tier %d had its first signal at %v, tier %d its last exit at %v", i+1, t.first, i, tiers[i-1].last)
		}
	}
	return o, problems
}

// tier is the span in which the pods of a tier ended.
type tier struct {
	first, last time.Time
	longest     time.Duration // from the signal of a pod until its sandbox was gone
}

func (t *tier) add(e end) {
	signal := e.Signals[0]
	if t.first.IsZero() || signal.Before(t.first) {
		t.first = signal
	}
	if e.Exit.After(t.last) {
		t.last = e.Exit
	}
	t.longest = max(t.longest, e.Stopped.Sub(signal))
}
