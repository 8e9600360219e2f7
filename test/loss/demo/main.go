// Command demo shows on a throwaway real node that restarts through the gate lose no exit code, and what the same
// restarts cost without it. It writes out/loss.json and what crictl says of each container to out/evidence/loss/.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quiesce/test/lab"
	"quiesce/test/loss"
	"quiesce/test/story"
)

func main() { story.Main("loss", play) }

func play(ctx context.Context, out story.Out) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	s := loss.Story{Containers: 50, Restarts: 20, Seed: uint64(time.Now().UnixNano()), Say: out.Say}
	s.Evidence = func(container string, inspect []byte) error { return out.Keep(container+".json", inspect) }
	out.Say("booting a node (seed %d)", s.Seed)
	l, err := lab.Boot(ctx, s.Lab())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	o, lost, err := s.Run(ctx, l)
	if err != nil {
		return err
	}
	for _, what := range lost {
		out.Say("lost: %s", what)
	}
	if err := out.Figures(o); err != nil {
		return err
	}
	return tell(o)
}

// tell prints the story; it is an error if a code was lost.
func tell(o loss.Outcome) error {
	fmt.Printf("\nWhat happened\n")
	fmt.Printf("  %d containers ended with codes of their own while containerd was restarted %d times.\n", o.Containers, o.Restarts)
	fmt.Printf("  With plain `systemctl restart containerd`: %d exit codes became 255, Unknown.\n", o.NaiveLost)
	fmt.Printf("  Through the gate of quiesce: %d lost; %d containers were due while they were frozen (at most %.0f ms).\n",
		o.Lost, o.DueWhileFrozen, o.FrozenMSMax)
	fmt.Printf("\n  The figures are in out/loss.json, what CRI says of each container in out/evidence/loss/.\n")
	if o.Lost > 0 {
		return fmt.Errorf("%d exit codes were lost", o.Lost)
	}
	return nil
}
