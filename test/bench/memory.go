package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"quiesce/test/bench/measure"
	"quiesce/test/lab"
	"quiesce/test/node"
)

// Limits of what quiesce may take, as promised.
const (
	maxRSS    = 25  // MiB with 110 pods
	maxPerPod = 20  // KiB
	maxIdle   = 0.1 // per cent of a core
	maxBinary = 20  // MiB
)

// twoPlugins are quiesce and a peer on the same node at the same time.
type twoPlugins struct {
	l          *lab.Lab
	ours, peer int // processes, as the node numbers them
}

// memory measures what quiesce takes beside another NRI plugin, with 0, 110 and 500 pods.
func memory(ctx context.Context, b *bench) (lines []measure.Line, err error) {
	other, program, err := b.nriPeer(ctx)
	if err != nil {
		return nil, err
	}
	o := lab.Options{Name: "memory", Node: node.Config{Build: []string{"-ldflags", "-s -w"}, Files: map[string]node.File{"/usr/local/bin/peer": {Host: program, Mode: 0o755}}}}
	l, err := b.boot(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := startPeer(ctx, l, other); err != nil {
		return nil, err
	}
	m := memories{b: b, two: twoPlugins{l: l}, peer: other.String(), counts: []int{0, 110, 500}, watched: 30 * time.Second}
	if b.quick {
		m.counts, m.watched = []int{0, 5, 10}, 5*time.Second
	}
	if lines, err = m.measure(ctx); err != nil {
		return lines, err
	}
	size, err := sizes(l, other, program)
	return append(lines, size), err
}

// memories measures both plugins with more and more pods.
type memories struct {
	b       *bench
	two     twoPlugins
	peer    string
	counts  []int
	watched time.Duration // how long the idle CPU is watched
}

func (m *memories) measure(ctx context.Context) (lines []measure.Line, err error) {
	var ours, peers []measure.Series
	for i, n := range m.counts {
		if i > 0 {
			if err := start(ctx, m.two.l.Node, m.counts[i-1], n, sleeper); err != nil {
				return lines, err
			}
		}
		if err := m.two.find(ctx); err != nil {
			return lines, err
		}
		goal := measure.Goal{Base: measure.Informal}
		if i == 1 { // the count that the goals are about
			goal = measure.Goal{Base: measure.Alone, Limit: maxRSS}
			cpu, err := m.two.idle(ctx, m.watched)
			if err != nil {
				return lines, err
			}
			lines = append(lines, measure.Line{
				Name: fmt.Sprintf("CPU when idle, %d pods", n), Unit: "% of a core", Ours: cpu[0], Peer: cpu[1], PeerName: m.peer,
				Goal: measure.Goal{Base: measure.Alone, Limit: maxIdle, Strict: true},
			})
		}
		rss, err := m.two.rss(ctx, m.b.rounds)
		if err != nil {
			return lines, err
		}
		ours, peers = append(ours, rss[0]), append(peers, rss[1])
		lines = append(lines, measure.Line{
			Name: fmt.Sprintf("resident memory, %d pods", n), Unit: "MiB", Ours: rss[0], Peer: rss[1], PeerName: m.peer, Goal: goal,
		})
	}
	first, last := 0, len(m.counts)-1
	more := float64(m.counts[last] - m.counts[first])
	per := func(s []measure.Series) measure.Series {
		return measure.Series{1024 * (s[last].Median() - s[first].Median()) / more}
	}
	return append(lines, measure.Line{
		Name: fmt.Sprintf("resident memory a pod, from %d to %d", m.counts[first], m.counts[last]), Unit: "KiB", Ours: per(ours), Peer: per(peers),
		PeerName: m.peer, Goal: measure.Goal{Base: measure.Alone, Limit: maxPerPod},
	}), nil
}

// startPeer runs the peer as a unit and waits until the runtime has it.
func startPeer(ctx context.Context, l *lab.Lab, p peer, args ...string) error {
	registered := func(ctx context.Context) int {
		out, _ := l.Exec(ctx, "journalctl", "-u", "containerd", "-o", "cat", "--grep", "plugin .*20-.*connected and synchronized") // no line is an error
		return strings.Count(out, "\n")
	}
	before := registered(ctx)
	argv := []string{
		"systemd-run", "--unit=peer", "--collect", "--property=StandardOutput=append:/var/log/peer", "--property=StandardError=append:/var/log/peer",
		"/usr/local/bin/peer", "-idx", "20",
	}
	if _, err := l.Exec(ctx, append(argv, args...)...); err != nil {
		return fmt.Errorf("start %s: %w", p, err)
	}
	return l.Until(ctx, p.String()+" is registered", func(ctx context.Context) (bool, error) { return registered(ctx) > before, nil })
}

func (two *twoPlugins) find(ctx context.Context) (err error) {
	pids := map[string]int{"quiesce": 0, "peer": 0}
	for unit := range pids {
		if pids[unit], err = pidOf(ctx, two.l, unit); err != nil {
			return err
		}
	}
	two.ours, two.peer = pids["quiesce"], pids["peer"]
	return nil
}

// rss samples the resident memory of both, in MiB.
func (two *twoPlugins) rss(ctx context.Context, rounds int) ([]measure.Series, error) {
	of := func(pid int) measure.Probe {
		return func(ctx context.Context) (float64, error) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			kib, err := field(two.l, path.Join("/proc", strconv.Itoa(pid), "status"), "VmRSS")
			return kib / 1024, err
		}
	}
	return measure.Interleave(ctx, rounds, of(two.ours), of(two.peer))
}

// idle is what both take of a core while nothing happens, in per cent.
func (two *twoPlugins) idle(ctx context.Context, d time.Duration) ([]measure.Series, error) {
	pids := []int{two.ours, two.peer}
	before := make([]time.Duration, len(pids))
	var err error
	for i, pid := range pids {
		if before[i], err = cpuTime(two.l, pid); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	took := time.Since(began)
	out := make([]measure.Series, len(pids))
	for i, pid := range pids {
		after, err := cpuTime(two.l, pid)
		if err != nil {
			return nil, err
		}
		out[i] = measure.Series{100 * (after - before[i]).Seconds() / took.Seconds()}
	}
	return out, nil
}

// cpuTime is what all threads of a process have run, to the nanosecond (proc(5), schedstat).
func cpuTime(l *lab.Lab, pid int) (sum time.Duration, err error) {
	files, err := filepath.Glob(l.Path(fmt.Sprintf("/proc/%d/task", pid)) + "/*/schedstat")
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("read CPU time of process %d: it has no threads: %w", pid, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// sizes compares the binaries, as released: static and stripped.
func sizes(l *lab.Lab, p peer, program string) (measure.Line, error) {
	mib := func(file string) (measure.Series, error) {
		fi, err := os.Stat(file)
		if err != nil {
			return nil, fmt.Errorf("measure binary: %w", err)
		}
		return measure.Series{float64(fi.Size()) / (1 << 20)}, nil
	}
	ours, err := mib(l.Path("/opt/quiesce/bin/quiesce"))
	if err != nil {
		return measure.Line{}, err
	}
	theirs, err := mib(program)
	return measure.Line{
		Name: "binary", Unit: "MiB", Ours: ours, Peer: theirs, PeerName: p.String(), Goal: measure.Goal{Base: measure.Alone, Limit: maxBinary},
	}, err
}
