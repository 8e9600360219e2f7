// Command demo tells on throwaway Kubernetes nodes what becomes of a Job that installs a runtime shim: as it is reported,
// with quiesce's installer in its place, and with nothing changed but its image. It ends with a short story,
// out/kubernetes.json and out/evidence/kubernetes/.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"quiesce/test/kube"
	"quiesce/test/kubernetes"
	"quiesce/test/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo-kubernetes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	fmt.Println("Preparing the node (the first time Kubernetes and etcd are built, which takes long) …")
	kit, err := node.Prepare(ctx)
	if err != nil {
		return err
	}
	out := filepath.Join(kit.Module(), "out")
	story := kubernetes.Story{Dir: filepath.Join(out, "evidence", "kubernetes"), Say: func(format string, a ...any) { fmt.Printf("   "+format+"\n", a...) }}
	if err := errors.Join(os.RemoveAll(story.Dir), os.MkdirAll(story.Dir, 0o755)); err != nil {
		return fmt.Errorf("make output directory: %w", err)
	}
	var r kubernetes.Report
	fmt.Println("\n1. Without quiesce.")
	err = with(ctx, kubernetes.NaiveOptions("naive"), func(c *kube.Cluster) (err error) {
		r.Naive, err = story.Naive(ctx, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("without quiesce: %w", err)
	}
	var seen kubernetes.Seen
	fmt.Println("\n2. With quiesce.")
	err = with(ctx, kubernetes.Options("demo"), func(c *kube.Cluster) (err error) {
		seen, err = story.Quiesce(ctx, c, &r)
		return err
	})
	if err != nil {
		return fmt.Errorf("with quiesce: %w", err)
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, "kubernetes.json"), append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
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
