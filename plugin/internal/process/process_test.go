package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/node"
)

func TestStopSignal(t *testing.T) {
	for name, want := range map[string]unix.Signal{
		"": unix.SIGTERM, "SIGINT": unix.SIGINT, "quit": unix.SIGQUIT, "10": unix.SIGUSR1, "SIGRTMIN+3": 37, "RTMIN": 34, "nonsense": unix.SIGTERM,
	} {
		if got := stopSignal(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// A process that is not the noted one is never signalled: not another of the same PID, not one outside the cgroup.
func TestSignalsNobodyElse(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	pid := cmd.Process.Pid
	start := Start(pid)
	if start == "" || Start(1<<30) != "" {
		t.Fatalf("start is %q", start)
	}
	if err := signal("x", drain.Reach{PID: pid, Start: "1"}, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := signal("no such container", drain.Reach{PID: pid, Start: start}, unix.SIGKILL); err == nil {
		t.Error("a process outside the container's cgroup was signalled")
	}
	if err := kill("no such container", drain.Reach{PID: pid, Start: start}); err == nil {
		t.Error("a process outside the container's cgroup was killed")
	}
	if Start(pid) != start {
		t.Error("the process is gone")
	}
}

// gone is a runtime that answers until it does not.
type gone struct{ down bool }

var errUnavailable = errors.New("unavailable")

func (g *gone) err() error {
	if g.down {
		return errUnavailable
	}
	return nil
}

func (g *gone) StopContainer(context.Context, string, time.Duration) error { return g.err() }
func (g *gone) StopPod(context.Context, string) error                      { return g.err() }
func (g *gone) Sent(context.Context, string) error                         { return g.err() }
func (g *gone) Snapshot(context.Context) (node.Snapshot, error)            { return node.Snapshot{}, g.err() }

func (g *gone) Exit(context.Context, string) (drain.Exit, error) {
	return drain.Exit{Known: true}, g.err()
}

func (g *gone) States(context.Context) (map[string]node.ContainerState, error) {
	return map[string]node.ContainerState{"c": node.Running}, g.err()
}

func (g *gone) Reach(context.Context) (map[string]drain.Reach, error) {
	return map[string]drain.Reach{
		"c": {PID: os.Getpid(), Start: Start(os.Getpid()), Runc: true}, "vm": {PID: os.Getpid(), Start: Start(os.Getpid())}, "over": {PID: 1 << 30, Start: "1", Runc: true},
	}, g.err()
}

func TestFailover(t *testing.T) {
	ctx, g, dead := t.Context(), &gone{}, false
	f := &Failover{Runtime: g, Dead: func(context.Context, time.Duration) bool { return dead }}
	if _, err := f.Reach(ctx); err != nil {
		t.Fatal(err)
	}
	g.down = true
	if _, err := f.States(ctx); !errors.Is(err, errUnavailable) {
		t.Errorf("a runtime that may come back: %v", err)
	}
	dead, f.asked = true, time.Time{}
	states, err := f.States(ctx)
	if err != nil || states["c"] != node.Running || states["over"] != node.Exited {
		t.Errorf("states without the runtime: %v, %v", states, err)
	}
	if x, err := f.Exit(ctx, "over"); err != nil || !x.Ended || !x.Lost {
		t.Errorf("exit: %+v, %v", x, err)
	}
	if err := f.StopContainer(ctx, "vm", time.Second); !errors.Is(err, errDead) {
		t.Errorf("a container that is not runc's: %v", err)
	}
	if err := f.StopContainer(ctx, "c", time.Second); err == nil {
		t.Error("this very process was taken for a container's")
	}
	if err := f.StopPod(ctx, "p"); !errors.Is(err, errDead) {
		t.Errorf("sandbox: %v", err)
	}
}

func TestEnded(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := drain.Reach{PID: cmd.Process.Pid, Start: Start(cmd.Process.Pid)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if Ended(ctx, r) {
		t.Error("it has ended, although it runs")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !Ended(t.Context(), r) { // a corpse has
		t.Error("it has not ended")
	}
	_ = cmd.Wait() // it was killed
	if !Ended(t.Context(), r) {
		t.Error("it has not ended")
	}
}
