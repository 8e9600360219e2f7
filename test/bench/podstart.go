package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/bench/measure"
	"quiesce/test/lab"
	"quiesce/test/node"
)

// maxCallback is the longest that the runtime may wait for our answer, at the 99th percentile.
const maxCallback = 200 // µs

// starter starts pods on a node with one plugin, another, or none.
type starter struct {
	l     *lab.Lab
	peer  peer
	block int // pods started between two changes of the plugin
	next  int // number of the next pod
}

// podStart measures RunPodSandbox, CreateContainer and StartContainer, in blocks of pods: with quiesce, with a peer, without.
func podStart(ctx context.Context, b *bench) (lines []measure.Line, err error) {
	other, program, err := b.nriPeer(ctx)
	if err != nil {
		return nil, err
	}
	l, err := b.boot(ctx, lab.Options{Name: "start", Node: node.Config{
		Build: []string{"-ldflags", "-s -w"}, Files: map[string]node.File{"/usr/local/bin/peer": {Host: program, Mode: 0o755}},
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s := &starter{l: l, peer: other, block: 5}
	rounds := 40
	if b.quick {
		rounds = 2
	}
	ours, peers, none, err := s.turns(ctx, rounds)
	if err != nil {
		return nil, err
	}
	lines = append(lines, measure.Line{
		Name: fmt.Sprintf("pod start, %d pods (floor: no plugin)", len(ours)), Unit: "ms", Ours: ours, Peer: peers, PeerName: other.String(), Floor: none,
		Goal: measure.Goal{Base: measure.ToFloor, Limit: 1.01},
	})
	calls, err := s.callbacks(ctx, rounds)
	if err != nil {
		return lines, err
	}
	inside, err := b.goBenchmark(ctx, b.rounds, "./plugin/internal/nri", "ScaleHandler", "20000x")
	if err != nil {
		return lines, err
	}
	p99 := func(s measure.Series) measure.Series { return measure.Series{s.Quantile(0.99)} }
	return append(lines, measure.Line{
		Name: "callback, 99th percentile", Unit: "µs", Ours: scaled(inside["ScaleHandler"]["p99-ns"], 1e-3), PeerName: "none",
		Goal: measure.Goal{Base: measure.Alone, Limit: maxCallback, Strict: true, Hard: true},
	}, measure.Line{
		Name: fmt.Sprintf("answer on the NRI socket, median of %d", len(calls[0])), Unit: "µs", Ours: measure.Series{calls[0].Median()}, Peer: measure.Series{calls[1].Median()},
		PeerName: other.String(), Goal: measure.Goal{Base: measure.ToPeer, Limit: 1},
	}, measure.Line{
		Name: fmt.Sprintf("answer on the NRI socket, 99th percentile of %d", len(calls[0])), Unit: "µs", Ours: p99(calls[0]), Peer: p99(calls[1]),
		PeerName: other.String(), Goal: measure.Goal{Base: measure.ToPeer, Limit: 1},
	}), nil
}

// turns starts pods with quiesce, with the peer, and with no plugin, in turn. Who begins changes: what a block leaves to be
// written meets each of the others alike.
func (s *starter) turns(ctx context.Context, rounds int) (ours, peers, none measure.Series, err error) {
	turns := []struct {
		into *measure.Series
		on   func(context.Context) error
		off  string
	}{{&ours, s.quiesce, "quiesce"}, {&peers, s.other, "peer"}, {&none, nil, ""}}
	for round := range rounds {
		for i := range turns {
			m := turns[(i+round)%len(turns)]
			took, err := s.with(ctx, m.on, m.off)
			if err != nil {
				return nil, nil, nil, err
			}
			*m.into = append(*m.into, took...)
		}
	}
	return ours, peers, none, nil
}

func (s *starter) quiesce(ctx context.Context) error {
	if _, err := s.l.Exec(ctx, "systemctl", "start", "quiesce"); err != nil {
		return err
	}
	return synchronized(ctx, s.l)
}

func (s *starter) other(ctx context.Context) error { return startPeer(ctx, s.l, s.peer) }

// with starts a block of pods while a plugin is on. After boot quiesce is on and must be off where it is not meant.
func (s *starter) with(ctx context.Context, on func(context.Context) error, unit string) (took measure.Series, err error) {
	if _, err := s.l.Exec(ctx, "systemctl", "stop", "quiesce"); err != nil {
		return nil, err
	}
	if on != nil {
		if err := on(ctx); err != nil {
			return nil, err
		}
		defer func() {
			_, serr := s.l.Exec(ctx, "systemctl", "stop", unit)
			err = errors.Join(err, serr)
		}()
	}
	return s.pods(ctx)
}

// pods starts a block of pods one after the other and removes them.
func (s *starter) pods(ctx context.Context) (took measure.Series, err error) {
	var pods []*node.RunningPod
	for range s.block {
		began := time.Now()
		p, err := s.l.StartPod(ctx, sleeper(s.next))
		if err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
		pods, s.next = append(pods, p), s.next+1
	}
	cri, err := s.l.CRI(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		if _, err := cri.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.SandboxID}); err != nil {
			return nil, fmt.Errorf("stop pod: %w", err)
		}
		if err := p.Remove(ctx); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// callbacks measures at the plugins' sockets how long the runtime waits for an answer: quiesce's, and the peer's.
func (s *starter) callbacks(ctx context.Context, rounds int) ([2]measure.Series, error) {
	var out [2]measure.Series
	t, err := listen(s.l)
	if err != nil {
		return out, err
	}
	defer t.close()
	if err := s.l.WriteFile("/etc/quiesce/config.toml", []byte("nriSocket = '"+tapSocket+"'\n"), 0o644); err != nil {
		return out, err
	}
	fresh := func(on func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			err := on(ctx)
			t.take() // its registration
			return err
		}
	}
	tapped := func(ctx context.Context) error { return startPeer(ctx, s.l, s.peer, "-socket-path", tapSocket) }
	for range max(1, rounds/4) {
		for i, m := range []struct {
			on   func(context.Context) error
			unit string
		}{{s.quiesce, "quiesce"}, {tapped, "peer"}} {
			if _, err := s.with(ctx, fresh(m.on), m.unit); err != nil {
				return out, err
			}
			out[i] = append(out[i], t.take()...)
		}
	}
	return out, nil
}
