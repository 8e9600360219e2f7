package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
)

func bootPlan(a Action) string {
	if a == KillApply {
		return "kill"
	}
	return "hold"
}

// off switches the node off in order.
func (b *Bench) off(ctx context.Context) error {
	b.worker = nil
	return b.Shutdown(ctx)
}

// offline stages on the file system of the node that is off.
func (b *Bench) offline(ctx context.Context, args ...string) error {
	argv := append(append([]string{}, args...), "--inbox", b.Path(stageDir+"/inbox"))
	for i, a := range argv {
		if a == oneShim {
			argv[i] = b.Path(a)
		}
	}
	out, err := exec.CommandContext(ctx, b.Path("/root/quiesce/quiesce-installer"), argv...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("stage offline: %w: %s", err, out)
	}
	return nil
}

// boot starts the node, on which apply dies at the step before containerd is started, or the power is cut.
func (b *Bench) boot(ctx context.Context, c Case, o *Outcome) (err error) {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	up := make(chan error, 1)
	go func() { up <- b.Start(starting) }()
	if o.At, err = b.reached(ctx); errors.Is(err, errNotReached) {
		return cmp.Or(<-up, err)
	}
	if err != nil {
		return err
	}
	if c.Action == KillApply {
		return <-up
	}
	if o.was, err = b.results(); err != nil {
		return err
	}
	if err := b.PowerCut(ctx, c.Written...); err != nil {
		return err
	}
	cancel()
	if err := <-up; err == nil {
		return errors.New("the node came up although the power was cut")
	}
	return b.Start(ctx)
}
