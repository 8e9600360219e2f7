package loss_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/loss"
	"quiesce/test/node"
)

// soon is how long after a death everything may stay frozen.
const soon = 2 * time.Second

// thawedWithin waits until nothing is frozen, no list and no guard is left.
func thawedWithin(ctx context.Context, t *testing.T, n *node.Node) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		err := nothingFrozen(ctx, n)
		took := time.Since(began)
		if err == nil {
			noneLeft(ctx, t, n)
			return took
		}
		if took > soon {
			t.Fatalf("after %v: %v", took, err)
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// noneLeft waits for the end of the list and the guards.
func noneLeft(ctx context.Context, t *testing.T, n *node.Node) {
	t.Helper()
	for began := time.Now(); ; wait(ctx, 20*time.Millisecond) {
		out, err := n.Exec(ctx, "sh", "-c", "ls "+store+"; systemctl list-units --all --plain --no-legend 'quiesce-thaw-*'")
		if err == nil && out == "" {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("left over: %q, %v", out, err)
		}
	}
}

// hang runs try until everything is frozen and it hangs, and returns what ends it.
func hang(ctx context.Context, t *testing.T, n *node.Node, limit time.Duration, before ...string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	cmd, err := n.Command(ctx, append(before, try, "--hang", "frozen", "--limit", limit.String())...)
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	end = func() {
		cancel()
		_ = cmd.Wait() // it is killed
	}
	t.Cleanup(end)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "frozen\n" {
		end()
		t.Fatalf("try says %q, %v: %s", line, err, stderr.String())
	}
	return end
}

func wantFrozen(ctx context.Context, t *testing.T, n *node.Node) {
	t.Helper()
	if nothingFrozen(ctx, n) == nil {
		t.Fatal("nothing is frozen")
	}
}

// TestLoss_NothingStaysFrozen ends the freezing process, its guard and the node in every way there is.
func TestLoss_NothingStaysFrozen(t *testing.T) {
	t.Parallel()
	ctx, n := boot(t, "loss-crash")
	w, err := loss.Start(ctx, n, "crash", 4, 10)
	check(t, err)
	check(t, w.Go(time.Hour))
	for _, step := range []string{"guarded", "listed", "first frozen", "frozen", "restarting", "restarted", "thawing", "thawed"} {
		t.Run("SIGKILL at "+step, func(t *testing.T) {
			_, err := tryIt(ctx, n, "--kill-at", step)
			var exit *node.ExitError
			if !errors.As(err, &exit) || exit.Code == 1 {
				t.Fatalf("try: %v, want its death", err)
			}
			t.Logf("thawed after %v", thawedWithin(ctx, t, n))
		})
	}
	t.Run("SIGKILL at any time", func(t *testing.T) { testKillAnyTime(ctx, t, n) })
	for name, test := range map[string]func(context.Context, *testing.T, *node.Node){
		"limit": testLimit, "reexec": testReexec, "guard killed": testGuardKilled, "unit killed": testUnitKilled,
		"quiesce thaw": testThaw, "foreign": testForeign, "paused": testPaused,
	} {
		t.Run(name, func(t *testing.T) {
			check(t, n.WaitCRI(ctx)) // the one before may have died in the middle of a restart
			test(ctx, t, n)
		})
	}
	stillRunning(ctx, t, n, 10)
	t.Run("power cut", func(t *testing.T) { testPowerCut(ctx, t, n) })
}

func stillRunning(ctx context.Context, t *testing.T, n *node.Node, want int) {
	t.Helper()
	cri, err := n.CRI(ctx)
	check(t, err)
	list, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	check(t, err)
	if len(list.GetContainers()) != want {
		t.Errorf("%d containers run, want %d", len(list.GetContainers()), want)
	}
}

// testKillAnyTime kills try after a random part of the time that it takes.
func testKillAnyTime(ctx context.Context, t *testing.T, n *node.Node) {
	rng := rand.New(rand.NewPCG(1, 2))
	var most time.Duration
	for range 25 {
		after := fmt.Sprintf("%.3f", rng.Float64()*0.6)
		_, _ = n.Exec(ctx, "timeout", "--signal=KILL", after, try) // sometimes it is faster
		most = max(most, thawedWithin(ctx, t, n))
	}
	t.Logf("thawed after %v at most", most)
}

func testLimit(ctx context.Context, t *testing.T, n *node.Node) {
	end := hang(ctx, t, n, 2*time.Second)
	wantFrozen(ctx, t, n)
	for began := time.Now(); nothingFrozen(ctx, n) != nil; wait(ctx, 20*time.Millisecond) {
		if time.Since(began) > 3*time.Second {
			t.Fatal("frozen beyond the limit")
		}
	}
	end()
	thawedWithin(ctx, t, n)
}

func testReexec(ctx context.Context, t *testing.T, n *node.Node) {
	hang(ctx, t, n, 4*time.Second)
	_, err := n.Exec(ctx, "systemctl", "daemon-reexec")
	check(t, err)
	wantFrozen(ctx, t, n)
	for began := time.Now(); nothingFrozen(ctx, n) != nil; wait(ctx, 20*time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatal("frozen beyond the limit")
		}
	}
	_, err = n.Exec(ctx, "pkill", "-KILL", "-x", "try")
	check(t, err)
	noneLeft(ctx, t, n)
}

func testGuardKilled(ctx context.Context, t *testing.T, n *node.Node) {
	end := hang(ctx, t, n, time.Minute)
	wantFrozen(ctx, t, n)
	_, err := n.Exec(ctx, "systemctl", "kill", "--signal=KILL", "quiesce-thaw-*.service")
	check(t, err)
	t.Logf("thawed after %v", thawedWithin(ctx, t, n))
	end()
}

func testUnitKilled(ctx context.Context, t *testing.T, n *node.Node) {
	hang(ctx, t, n, time.Minute, "systemd-run", "--quiet", "--pipe", "--unit=as-apply")
	wantFrozen(ctx, t, n)
	_, err := n.Exec(ctx, "systemctl", "kill", "--kill-whom=all", "--signal=KILL", "as-apply.service")
	check(t, err)
	t.Logf("thawed after %v", thawedWithin(ctx, t, n))
	_, _ = n.Exec(ctx, "systemctl", "reset-failed") // it has failed, as it should
}

func testThaw(ctx context.Context, t *testing.T, n *node.Node) {
	end := hang(ctx, t, n, time.Minute)
	wantFrozen(ctx, t, n)
	_, err := n.Exec(ctx, quiesce, "thaw")
	check(t, err)
	check(t, nothingFrozen(ctx, n))
	end()
	noneLeft(ctx, t, n)
}

// putOff runs try, which has to leave everything as it is.
func putOff(ctx context.Context, t *testing.T, n *node.Node, want string) {
	t.Helper()
	_, err := tryIt(ctx, n, "--restart=false")
	var exit *node.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 || !strings.Contains(exit.Stderr, want) {
		t.Errorf("try: %v, want it put off because of %q", err, want)
	}
	noneLeft(ctx, t, n)
}

func oneContainer(ctx context.Context, t *testing.T, n *node.Node) string {
	t.Helper()
	cri, err := n.CRI(ctx)
	check(t, err)
	list, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	check(t, err)
	return list.GetContainers()[0].GetId()
}

func testForeign(ctx context.Context, t *testing.T, n *node.Node) {
	id := oneContainer(ctx, t, n)
	set := func(state string) {
		_, err := n.Exec(ctx, "sh", "-c", fmt.Sprintf("echo %s >$(find /sys/fs/cgroup/freezer -name %s)/freezer.state", state, id))
		check(t, err)
	}
	set("FROZEN")
	putOff(ctx, t, n, "frozen already")
	wantFrozen(ctx, t, n)
	set("THAWED")
	check(t, nothingFrozen(ctx, n))
}

func testPaused(ctx context.Context, t *testing.T, n *node.Node) {
	id := oneContainer(ctx, t, n)
	_, err := n.Exec(ctx, "ctr", "-n", "k8s.io", "tasks", "pause", id)
	check(t, err)
	putOff(ctx, t, n, "a task is paused")
	wantFrozen(ctx, t, n)
	_, err = n.Exec(ctx, "ctr", "-n", "k8s.io", "tasks", "resume", id)
	check(t, err)
}

func testPowerCut(ctx context.Context, t *testing.T, n *node.Node) {
	hang(ctx, t, n, time.Minute)
	wantFrozen(ctx, t, n)
	check(t, n.PowerCut(ctx))
	if b, err := n.ReadFile(store + "/freeze.json"); err != nil || !strings.Contains(string(b), `"boot"`) {
		t.Fatalf("the list after the power cut: %.100s, %v", b, err)
	}
	check(t, n.Start(ctx))
	check(t, nothingFrozen(ctx, n))
	_, err := n.Exec(ctx, quiesce, "thaw")
	check(t, err)
	noneLeft(ctx, t, n)
	_, err = tryIt(ctx, n)
	check(t, err)
}
