package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/bench/measure"
	"quiesce/test/drain"
	"quiesce/test/lab"
)

// slowest is how long the slowest pod of each tier takes to end.
const slowest = 4 * time.Second

// oneTier is how many containers get their stop signal together, and spread within what time they must have it.
const (
	oneTier   = 100
	maxSpread = 500 // ms
)

// town is n pods in the six default tiers: one of each tier takes its time, the others end soon.
func town(n int) (pods []drain.Pod) {
	for i := range n {
		tier, after := i%drain.Tiers, time.Duration(50+i*37%400)*time.Millisecond
		if i < drain.Tiers {
			after = slowest
		}
		p := drain.Victim("default", fmt.Sprintf("t%d-pod%03d", tier, i), 30, "-after", after.String())
		drain.Place(&p, tier)
		pods = append(pods, p)
	}
	return pods
}

func names(pods []drain.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

// drainer stops all pods of a node in several ways.
type drainer struct {
	b *bench
	l *lab.Lab
	k *drain.Kubelet
}

// drains measures how long a node takes to stop its pods: with quiesce, with a loop of crictl, and with the kubelet's
// graceful shutdown; the floor is the sum over the tiers of the longest that one of its containers really took to end.
func drains(ctx context.Context, b *bench) (lines []measure.Line, err error) {
	counts, crowd := []int{10, 50, 110}, oneTier
	if b.quick {
		counts, crowd = []int{6, 12}, 12
	}
	d := &drainer{b: b}
	if d.l, d.k, err = drain.Boot(ctx, lab.Options{Name: "drain"}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.l.Close()) }()
	if _, err := d.l.Exec(ctx, "mkdir", "-p", "/opt/cni/bin", "/var/lib/kubelet/plugins"); err != nil {
		return nil, err
	}
	for _, n := range counts {
		some, err := d.town(ctx, n)
		lines = append(lines, some...)
		if err != nil {
			return lines, fmt.Errorf("%d pods: %w", n, err)
		}
	}
	spread, err := measure.Interleave(ctx, b.rounds,
		func(ctx context.Context) (float64, error) { return d.spread(ctx, crowd, d.drain) },
		func(ctx context.Context) (float64, error) { return d.spread(ctx, crowd, d.together) })
	if err != nil {
		return lines, err
	}
	return append(lines, measure.Line{
		Name: fmt.Sprintf("first to last SIGTERM of %d containers in a tier (floor: CRI asked for all at once)", crowd), Unit: "ms", Ours: spread[0], Floor: spread[1],
		Goal: measure.Goal{Base: measure.Alone, Limit: maxSpread, Strict: true, Hard: true},
	}), nil
}

func (d *drainer) town(ctx context.Context, n int) ([]measure.Line, error) {
	pods := town(n)
	ours, floor, err := d.quiesce(ctx, pods)
	if err != nil {
		return nil, err
	}
	loop, err := d.crictl(ctx, pods)
	if err != nil {
		return nil, err
	}
	kubelet, err := d.b.kubelet(ctx, pods)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("drain of %d pods in %d tiers", n, drain.Tiers)
	return []measure.Line{
		{
			Name: name + ", against a loop", Unit: "s", Ours: ours, Floor: floor, Peer: loop, PeerName: "sequential loop of crictl stop 1.37.0",
			Goal: measure.Goal{Base: measure.ToFloor, Limit: 1.05, Hard: true},
		},
		{
			Name: name + ", against the kubelet", Unit: "s", Ours: ours, Floor: floor, Peer: kubelet, PeerName: "graceful node shutdown of kubelet 1.37.2",
			Goal: measure.Goal{Base: measure.ToPeer, Limit: 1},
		},
	}, nil
}

func (d *drainer) start(ctx context.Context, pods []drain.Pod) error {
	if err := d.k.Start(ctx, pods...); err != nil {
		return err
	}
	return drain.Started(ctx, d.l, names(pods)...)
}

// clear removes what is left of pods, and what they wrote.
func (d *drainer) clear(ctx context.Context) error {
	_, err := d.l.Exec(ctx, "sh", "-c", "crictl rmp -a -f >/dev/null && rm -rf "+drain.Evidence+"/*")
	return err
}

// quiesce drains, and tells the floor beside it.
func (d *drainer) quiesce(ctx context.Context, pods []drain.Pod) (took, floor measure.Series, err error) {
	if err := d.start(ctx, pods); err != nil {
		return nil, nil, err
	}
	began := time.Now()
	if _, err := d.l.Quiesce(ctx, "drain", "--all", "--yes"); err != nil {
		return nil, nil, err
	}
	took = measure.Series{time.Since(began).Seconds()}
	longest := make([]time.Duration, drain.Tiers)
	for i, p := range pods {
		life, err := lifeOf(d.l, p.Name)
		if err != nil {
			return nil, nil, err
		}
		longest[i%drain.Tiers] = max(longest[i%drain.Tiers], life.exit.Sub(life.signal))
	}
	var sum time.Duration
	for _, t := range longest {
		sum += t
	}
	if _, err := d.l.Quiesce(ctx, "resume"); err != nil {
		return nil, nil, err
	}
	return took, measure.Series{sum.Seconds()}, d.clear(ctx)
}

// life is when a container got its signal, and when it ended.
type life struct{ signal, exit time.Time }

func lifeOf(l *lab.Lab, name string) (life, error) {
	signals, err := drain.Signals(l, name)
	if err != nil {
		return life{}, err
	}
	all, err := drain.Events(l, name)
	if err != nil {
		return life{}, err
	}
	end := all[len(all)-1]
	if len(signals) != 1 || end.What != "exit" {
		return life{}, fmt.Errorf("pod %s got %d signals, and the last it said is %q", name, len(signals), end.What)
	}
	return life{signals[0].At, end.At}, nil
}

// crictl stops one container after the other, as scripts do.
func (d *drainer) crictl(ctx context.Context, pods []drain.Pod) (measure.Series, error) {
	if err := d.start(ctx, pods); err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := d.l.Exec(ctx, "sh", "-c", "for c in $(crictl ps -q); do crictl stop --timeout 30 $c || exit 1; done"); err != nil {
		return nil, err
	}
	return measure.Series{time.Since(began).Seconds()}, d.clear(ctx)
}

// spread is the time from the first to the last container's signal when all are in one tier, in milliseconds.
func (d *drainer) spread(ctx context.Context, n int, stop func(context.Context) error) (float64, error) {
	var pods []drain.Pod
	for i := range n {
		pods = append(pods, drain.Victim("default", fmt.Sprintf("one-tier%03d", i), 30, "-after", "2s"))
	}
	if err := d.start(ctx, pods); err != nil {
		return 0, err
	}
	if err := stop(ctx); err != nil {
		return 0, err
	}
	var first, last time.Time
	for _, p := range pods {
		life, err := lifeOf(d.l, p.Name)
		if err != nil {
			return 0, err
		}
		if first.IsZero() || life.signal.Before(first) {
			first = life.signal
		}
		if life.signal.After(last) {
			last = life.signal
		}
	}
	return float64(last.Sub(first).Microseconds()) / 1000, d.clear(ctx)
}

// drain stops all pods with quiesce.
func (d *drainer) drain(ctx context.Context) error {
	if _, err := d.l.Quiesce(ctx, "drain", "--all", "--yes"); err != nil {
		return err
	}
	_, err := d.l.Quiesce(ctx, "resume")
	return err
}

// together asks CRI for the stop of all containers at once.
func (d *drainer) together(ctx context.Context) error {
	cri, err := d.l.CRI(ctx)
	if err != nil {
		return err
	}
	running := &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}
	all, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: running})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range all.GetContainers() {
		g.Go(func() error {
			_, err := cri.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.GetId(), Timeout: 30})
			return err
		})
	}
	return g.Wait()
}
