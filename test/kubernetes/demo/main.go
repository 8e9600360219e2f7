// Command demo tells on throwaway Kubernetes nodes what becomes of a Job that installs a runtime shim: as it is reported,
// with quiesce's installer in its place, and with nothing changed but its image. It ends with a short story,
// out/kubernetes.json and out/evidence/kubernetes/.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"quiesce/test/kube"
	"quiesce/test/kubernetes"
	"quiesce/test/node"
	"quiesce/test/story"
)

func main() { story.Main("kubernetes", run) }

func run(ctx context.Context, out story.Out) error {
	fmt.Println("Preparing the node (the first time Kubernetes and etcd are built, which takes long) …")
	if _, err := node.Prepare(ctx); err != nil {
		return err
	}
	s := kubernetes.Story{Dir: out.Evidence(), Say: out.Say}
	var r kubernetes.Report
	fmt.Println("\n1. Without quiesce.")
	err := with(ctx, kubernetes.NaiveOptions("naive"), func(c *kube.Cluster) (err error) {
		r.Naive, err = s.Naive(ctx, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("without quiesce: %w", err)
	}
	var seen kubernetes.Seen
	fmt.Println("\n2. With quiesce.")
	err = with(ctx, kubernetes.Options("demo"), func(c *kube.Cluster) (err error) {
		seen, err = s.Quiesce(ctx, c, &r)
		return err
	})
	if err != nil {
		return fmt.Errorf("with quiesce: %w", err)
	}
	if err := out.Figures(r); err != nil {
		return err
	}
	tell(r, seen)
	return errors.Join(r.Reproduced(), r.Broken(seen))
}

// with runs f on a cluster that is there for no longer.
func with(ctx context.Context, o kube.Options, f func(*kube.Cluster) error) error {
	c, err := kube.Boot(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(f(c), c.Close())
}

func tell(r kubernetes.Report, seen kubernetes.Seen) {
	fmt.Printf("\nWhat happened to the Job\n")
	fmt.Printf("  as reported, without quiesce:     %s\n", r.Naive)
	fmt.Printf("  quiesce's installer in its place: %s\n", r.Quiesce)
	fmt.Printf("  nothing changed but its image:    %s\n", r.ImageOnly)
	fmt.Printf("  handlers in the node's status:    %s\n", strings.Join(r.Handlers, " "))
	fmt.Printf("  a pod of the RuntimeClass, made with the Job, was scheduled at %s; the handler was live at %s; it ended with its own exit code %d\n",
		seen.Scheduled.Local().Format("15:04:05"), seen.Live.Local().Format("15:04:05.0"), seen.Exit)
	fmt.Printf("\n  The figures are in out/kubernetes.json, what kubectl says of Jobs and pods in out/evidence/kubernetes/.\n")
}
