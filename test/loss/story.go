package loss

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// Outcome is the figures of the story: out/loss.json.
type Outcome struct {
	Containers     int     `json:"containers"`
	Restarts       int     `json:"restarts"`
	DueWhileFrozen int     `json:"due_while_frozen"` // containers whose moment came while they were frozen
	Lost           int     `json:"lost"`             // containers that did not keep their exit code
	NaiveLost      int     `json:"naive_lost"`       // the same with systemctl restart
	FrozenMSMax    float64 `json:"frozen_ms_max"`
}

// Story is 50 containers and 20 restarts, once through the gate and once with systemctl restart.
type Story struct {
	Containers, Restarts int
	Seed                 uint64
	Say                  func(format string, a ...any)                // what happens
	Evidence             func(container string, inspect []byte) error // what CRI says of each container at the end; may be nil
}

// slow makes containerd take longer to start, as it does on a node with many pods, so that the restarts take a good
// part of the time.
const slow = "[Service]\nExecStartPre=/bin/sleep 1\n"

// Lab is the node of the story.
func (s Story) Lab() lab.Options {
	return lab.Options{
		Name: "loss", Quiet: 100 * time.Millisecond,
		Node: node.Config{
			Images: []node.Image{DueImage()},
			Files:  map[string]node.File{"/etc/systemd/system/containerd.service.d/slow.conf": {Content: slow}},
		},
	}
}

// warmUps are restarts before those that count.
const warmUps = 3

// Run tells the story on one node, one half after the other.
func (s Story) Run(ctx context.Context, l *lab.Lab) (o Outcome, lost []string, err error) {
	o = Outcome{Containers: s.Containers, Restarts: s.Restarts}
	w, err := Start(ctx, l.Node, "gated", s.Seed, s.Containers)
	if err != nil {
		return o, nil, err
	}
	quickest := time.Hour // how long does one take on this machine? The first has what comes only once, as NRI on containerd 1.7
	for number := range warmUps {
		began := time.Now()
		if _, err := s.restart(ctx, l, number); err != nil {
			return o, nil, err
		}
		quickest = min(quickest, time.Since(began))
	}
	span := quickest * time.Duration(s.Restarts) * 9 / 10 // all are to end before the last restart
	s.Say("%d containers will end at random moments of the next %v", s.Containers, span.Round(time.Second))
	if err := w.Go(span); err != nil {
		return o, nil, err
	}
	if lost, err = s.gated(ctx, l, w, &o); err != nil {
		return o, lost, err
	}
	o.Lost = len(lost)
	s.Say("%d restarts through the gate: %d containers were due while frozen, %d exit codes lost", s.Restarts, o.DueWhileFrozen, o.Lost)
	if err := w.Remove(ctx); err != nil {
		return o, lost, err
	}
	w, err = Start(ctx, l.Node, "naive", s.Seed, s.Containers)
	if err == nil {
		err = w.Go(span)
	}
	if err != nil {
		return o, lost, err
	}
	naive, err := s.naive(ctx, l, w)
	o.NaiveLost = len(naive)
	s.Say("%d times systemctl restart containerd: %d exit codes lost", s.Restarts, o.NaiveLost)
	return o, lost, err
}

// restart restarts containerd by installing a handler.
func (s Story) restart(ctx context.Context, l *lab.Lab, number int) (r restart, err error) {
	handler := fmt.Sprintf("h%d", number)
	if _, err := l.Installer(ctx, "install", "--handler", handler, "--runtime-type", "io.containerd.runc.v2"); err != nil {
		return r, err
	}
	if _, err := l.WaitPhase(ctx, handler, "live"); err != nil {
		return r, err
	}
	if r, err = lastRestart(l); err != nil {
		return r, err
	}
	if r.Done != number+1 || r.Freeze.Early {
		return r, fmt.Errorf("restart %d: %+v", number, r)
	}
	return r, nil
}

// gated restarts by installing one handler after the other.
func (s Story) gated(ctx context.Context, l *lab.Lab, w *Workload, o *Outcome) ([]string, error) {
	for i := range s.Restarts {
		r, err := s.restart(ctx, l, warmUps+i)
		if err != nil {
			return nil, err
		}
		due := w.Due(r.Freeze.From, r.Freeze.To)
		o.DueWhileFrozen += due
		ms := float64(r.Freeze.Longest.Microseconds()) / 1000
		o.FrozenMSMax = max(o.FrozenMSMax, ms)
		s.Say("restart %d after %v: %d frozen for %.0f ms, %d due meanwhile, %d unprotected, %d lost", i+1,
			time.Since(w.base).Round(time.Millisecond), r.Freeze.Containers, ms, due, len(r.Freeze.Unprotected), len(r.Lost))
	}
	lost, err := w.Lost(ctx)
	if err != nil {
		return lost, err
	}
	return lost, s.keep(ctx, l, w)
}

func (s Story) naive(ctx context.Context, l *lab.Lab, w *Workload) ([]string, error) {
	for range s.Restarts {
		next := time.After(w.span / time.Duration(s.Restarts))
		if err := l.RestartContainerd(ctx); err != nil {
			return nil, err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return w.Lost(ctx)
}

// keep hands out what crictl says.
func (s Story) keep(ctx context.Context, l *lab.Lab, w *Workload) error {
	if s.Evidence == nil {
		return nil
	}
	for _, e := range w.ends {
		out, err := l.Exec(ctx, "crictl", "inspect", "-o", "json", e.Pod.ID(e.Container))
		if err != nil {
			return err
		}
		if err := s.Evidence(e.Pod.Pod.Name+"-"+e.Container, []byte(out)); err != nil {
			return err
		}
	}
	return nil
}

// restart is a reader's view of results/restart.json.
type restart struct {
	Freeze struct {
		Containers  int
		From, To    time.Time
		Longest     time.Duration `json:"longest_ns"`
		Early       bool
		Unprotected []string
	}
	Lost   []string
	Failed string
	Done   int
}

func lastRestart(l *lab.Lab) (r restart, err error) {
	b, err := l.ReadFile(path.Join(lab.Results, "restart.json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("read last restart: %w", err)
	}
	return r, nil
}
