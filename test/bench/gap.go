package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/bench/measure"
	"quiesce/test/lab"
	"quiesce/test/node"
)

// every is how often CRI is asked while it may be away.
const every = 5 * time.Millisecond

// ask asks CRI of the node for something; the connection is dialled again at once.
func ask[T any](ctx context.Context, l *lab.Lab, f func(context.Context, runtimeapi.RuntimeServiceClient) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := l.Conn(ctx)
	if err != nil {
		var none T
		return none, err
	}
	conn.ResetConnectBackoff()
	return f(ctx, runtimeapi.NewRuntimeServiceClient(conn))
}

func version(ctx context.Context, cri runtimeapi.RuntimeServiceClient) (*runtimeapi.VersionResponse, error) {
	return cri.Version(ctx, &runtimeapi.VersionRequest{})
}

// longestGap asks CRI all the time while f runs and until it has answered afterwards, and tells the longest time without an
// answer, in milliseconds.
func longestGap(ctx context.Context, l *lab.Lab, f func(context.Context) error) (float64, error) {
	over := make(chan error, 1)
	go func() { over <- f(ctx) }()
	var gap time.Duration
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, ended := time.Now(), false
	for {
		_, err := ask(ctx, l, version)
		if err == nil {
			if gap, last = max(gap, time.Since(last)), time.Now(); ended {
				return float64(gap.Microseconds()) / 1000, nil
			}
		}
		select {
		case <-tick.C:
		case err := <-over:
			if ended = true; err != nil {
				return 0, err
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// applier installs a handler and takes it away again, in turn: each is one apply with one restart.
type applier struct {
	l    *lab.Lab
	live bool
}

const applied = "measured-v1"

func (a *applier) once(ctx context.Context) error {
	args, phase := []string{"install", "--handler", applied, "--shim", "/usr/local/bin/containerd-shim-runc-v2"}, "live"
	if a.live {
		args, phase = []string{"uninstall", "--handler", applied}, "removed"
	}
	began := time.Now()
	if _, err := a.l.Installer(ctx, args...); err != nil {
		return err
	}
	a.live = !a.live
	return settled(ctx, a.l, phase, began)
}

// settled waits for a result that is newer than a time.
func settled(ctx context.Context, l *lab.Lab, phase string, after time.Time) error {
	return l.Until(ctx, applied+" is "+phase, func(ctx context.Context) (bool, error) {
		all, err := l.Results(ctx)
		r := all[applied]
		if err == nil && r.Updated.After(after) && r.Phase == "rejected" {
			err = fmt.Errorf("it is rejected: %s", r.Reason)
		}
		return r.Updated.After(after) && r.Phase == phase, err
	})
}

func plainRestart(ctx context.Context, l *lab.Lab) error {
	_, err := l.Exec(ctx, "systemctl", "restart", "containerd.service")
	return err
}

// criGap is how long CRI does not answer while a change is applied, everything frozen that is frozen by default: every
// other pod is a Job's.
func criGap(ctx context.Context, b *bench) (lines []measure.Line, err error) {
	l, err := b.boot(ctx, lab.Options{Name: "gap", Quiet: time.Second})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	counts, rounds := []int{0, 20, 110}, []int{8 * b.rounds, 3 * b.rounds, 2 * b.rounds} // a round with few pods is short, and noisy
	if b.quick {
		counts = []int{0, 4}
	}
	a := &applier{l: l}
	for i, n := range counts {
		if i > 0 {
			if err := start(ctx, l.Node, counts[i-1], n, everyOtherJob); err != nil {
				return lines, err
			}
		}
		got, err := measure.Interleave(ctx, rounds[i],
			func(ctx context.Context) (float64, error) { return longestGap(ctx, l, a.once) },
			func(ctx context.Context) (float64, error) {
				return longestGap(ctx, l, func(ctx context.Context) error { return plainRestart(ctx, l) })
			})
		if err != nil {
			return lines, err
		}
		lines = append(lines, measure.Line{
			Name: fmt.Sprintf("CRI unanswered during an apply, %d pods (floor: the fastest plain restart)", n), Unit: "ms", Ours: got[0], Peer: got[1],
			PeerName: "systemctl restart containerd 2.4.2", Floor: measure.Series{slices.Min(got[1])}, Goal: measure.Goal{Base: measure.ToPeer, Limit: 1.15, Hard: true},
		})
	}
	return lines, nil
}

func everyOtherJob(i int) node.Pod {
	p := sleeper(i)
	if i%2 == 0 {
		p.Labels = node.JobLabels(p.Name)
	}
	return p
}

// usable is how long after the last installer pod is gone its handler can be used.
func usable(ctx context.Context, b *bench) (lines []measure.Line, err error) {
	const quiet = 2 * time.Second
	l, err := b.boot(ctx, lab.Options{Name: "usable", Quiet: quiet, Shims: []string{applied}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	quietMS := float64(quiet.Milliseconds())
	got, err := measure.Interleave(ctx, b.rounds,
		func(ctx context.Context) (float64, error) {
			if _, err := l.RunPod(ctx, lab.InstallPod("node1-"+applied+"-install", applied, 0, 0)); err != nil {
				return 0, err
			}
			gone := time.Now()
			if err := handler(ctx, l); err != nil {
				return 0, err
			}
			took := time.Since(gone)
			return float64(took.Microseconds()) / 1000, settled(ctx, l, "live", gone)
		},
		func(ctx context.Context) (float64, error) {
			began := time.Now()
			if err := plainRestart(ctx, l); err != nil {
				return 0, err
			}
			if err := handler(ctx, l); err != nil {
				return 0, err
			}
			took := time.Since(began)
			began = time.Now()
			if _, err := l.Installer(ctx, "uninstall", "--handler", applied); err != nil {
				return 0, err
			}
			return quietMS + float64(took.Microseconds())/1000, settled(ctx, l, "removed", began)
		})
	if err != nil {
		return nil, err
	}
	return []measure.Line{{
		Name: "last installer gone to handler usable, quiet period of 2 s", Unit: "ms", Ours: got[0], Peer: got[1],
		PeerName: "quiet period + systemctl restart containerd 2.4.2", Floor: measure.Series{slices.Min(got[1])},
		Goal: measure.Goal{Base: measure.ToPeer, Limit: 1.5, Hard: true, Offset: quietMS, Note: "beyond the quiet period"},
	}}, nil
}

// handler waits until CRI lists the handler.
func handler(ctx context.Context, l *lab.Lab) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s, err := ask(ctx, l, func(ctx context.Context, cri runtimeapi.RuntimeServiceClient) (*runtimeapi.StatusResponse, error) {
			return cri.Status(ctx, &runtimeapi.StatusRequest{})
		})
		if err == nil && slices.ContainsFunc(s.GetRuntimeHandlers(), func(h *runtimeapi.RuntimeHandler) bool { return h.GetName() == applied }) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for handler %s: %w", applied, context.Cause(ctx))
		}
	}
}
