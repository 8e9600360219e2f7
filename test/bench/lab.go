package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// boot is a node with quiesce as an operator has it: the lab's, without its debug log.
func (b *bench) boot(ctx context.Context, o lab.Options) (*lab.Lab, error) {
	if o.Quiet == 0 {
		o.Quiet = 2 * time.Second
	}
	l, err := lab.Boot(ctx, o)
	if err != nil || o.NoHost {
		return l, err
	}
	config := fmt.Sprintf("quietPeriod = %q\n%s\n", o.Quiet, o.Config)
	if err = l.WriteFile("/etc/quiesce/config.toml", []byte(config), 0o644); err == nil {
		err = restart(ctx, l)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// restart starts quiesce anew and waits until it knows the node.
func restart(ctx context.Context, l *lab.Lab) error {
	if _, err := l.Exec(ctx, "systemctl", "restart", "quiesce"); err != nil {
		return err
	}
	return synchronized(ctx, l)
}

func synchronized(ctx context.Context, l *lab.Lab) error {
	return l.Until(ctx, "quiesce is synchronized", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && s.NRI.Connected && s.Runtime.Error == "" && !s.Runtime.Listed.IsZero(), nil
	})
}

// atOnce is how many pods are started at the same time.
const atOnce = 4

// start starts the pods from number from to number to, less one.
func start(ctx context.Context, n *node.Node, from, to int, pod func(int) node.Pod) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := from; i < to; i++ {
		g.Go(func() error {
			_, err := n.StartPod(ctx, pod(i))
			return err
		})
	}
	return g.Wait()
}

// sleeper is a pod of one container that does nothing. In the network of the node it needs no address.
func sleeper(i int) node.Pod {
	return node.Pod{Name: fmt.Sprint("sleeper-", i), HostNetwork: true, Grace: time.Second, Containers: []node.Container{node.Shell("exec sleep 100000")}}
}

// pidOf is the main process of a unit, as this machine numbers it.
func pidOf(ctx context.Context, l *lab.Lab, unit string) (int, error) {
	out, err := l.Exec(ctx, "systemctl", "show", "-p", "MainPID", "--value", unit)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || pid == 0 {
		return 0, fmt.Errorf("find process of %s: systemd says %q", unit, out)
	}
	return pid, nil
}

// field is a figure of a file of the node, such as VmRSS of /proc/PID/status.
func field(l *lab.Lab, file, name string) (float64, error) {
	text, err := os.ReadFile(l.Path(file))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && strings.TrimSuffix(f[0], ":") == name {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, fmt.Errorf("read %s: it has no %s", file, name)
}
