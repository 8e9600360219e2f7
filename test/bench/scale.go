package main

import (
	"context"
	"fmt"
	"math"

	"quiesce/test/bench/measure"
)

// subject is something whose time grows with a size.
type subject struct {
	what, of          string // such as plan, pods
	benchmark         string // its names end with /size
	peer, floor       string // other benchmarks of the same kind
	peerName          string
	sizes             [3]int // each ten times the one before
	at                int    // index of the size that has a line of its own
	extra             string // said of that size
	goal              measure.Goal
	pkg, run, minimum string
}

func subjects() []subject {
	return []subject{
		{
			what: "Synchronize", of: "pods", benchmark: "ScaleSynchronize/quiesce", peer: "ScaleSynchronize/idle",
			peerName: "a plugin that does nothing, NRI 0.12.5", sizes: [3]int{100, 1000, 10000}, at: 1, extra: " and 5,000 containers",
			goal: measure.Goal{Base: measure.Alone, Limit: 2000, Strict: true, Note: "(NRI's own limit)"},
			pkg:  "./plugin/internal/nri", run: "ScaleSynchronize", minimum: "1x",
		},
		{
			what: "plan with edges", of: "pods", benchmark: "ScalePlan/edges", floor: "ScalePlan/none", sizes: [3]int{100, 1000, 10000}, at: 1,
			extra: " (floor: without edges)", goal: measure.Goal{Base: measure.Informal}, pkg: "./plugin/internal/drain", run: "ScalePlan", minimum: "10x",
		},
		{
			what: "list staged entries", of: "entries", benchmark: "ScalePending/quiesce", floor: "ScalePending/floor", sizes: [3]int{10, 100, 1000}, at: 1,
			extra: " (floor: read the files)", goal: measure.Goal{Base: measure.Informal}, pkg: "./plugin/stage", run: "ScalePending", minimum: "10x",
		},
	}
}

// scale measures what grows with the node.
func scale(ctx context.Context, b *bench) (lines []measure.Line, err error) {
	for _, s := range subjects() {
		f, err := b.goBenchmark(ctx, b.rounds, s.pkg, s.run, s.minimum)
		if err != nil {
			return lines, err
		}
		lines = append(lines, s.lines(f)...)
	}
	return lines, nil
}

func (s subject) lines(f figures) []measure.Line {
	sized := func(name string, i int) string { return fmt.Sprintf("%s/%d", name, s.sizes[i]) }
	lines := []measure.Line{{
		Name: fmt.Sprintf("%s, %d %s%s", s.what, s.sizes[s.at], s.of, s.extra), Unit: "ms", PeerName: s.peerName,
		Ours: f.ms(sized(s.benchmark, s.at)), Peer: f.ms(sized(s.peer, s.at)), Floor: f.ms(sized(s.floor, s.at)), Goal: s.goal,
	}}
	for _, from := range []int{1, 0} {
		lines = append(lines, measure.Line{
			Name: fmt.Sprintf("%s, growth from %d to %d %s (floor: n log n)", s.what, s.sizes[from], s.sizes[2], s.of), Unit: "×",
			Ours: f.growth(sized(s.benchmark, from), sized(s.benchmark, 2)), Peer: f.growth(sized(s.peer, from), sized(s.peer, 2)),
			PeerName: s.peerName, Floor: measure.Series{nLogN(s.sizes[from], s.sizes[2])},
			Goal: measure.Goal{Base: measure.ToFloor, Limit: 1},
		})
	}
	return lines
}

// nLogN is how many times more work n log n is at the larger size.
func nLogN(small, large int) float64 {
	f := func(n int) float64 { return float64(n) * math.Log(float64(n)) }
	return f(large) / f(small)
}
