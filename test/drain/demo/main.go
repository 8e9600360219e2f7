// Command demo shows on throwaway real nodes how pods are stopped before a node's services: PostgreSQL under load, with
// quiesce and as people stop nodes today; a kubelet that makes anew what ends; and 100 pods in 6 tiers. It ends with a
// short story, out/drain.json, out/drain-report.json, out/drain.svg and out/evidence/drain-*.
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
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"quiesce/test/drain"
	"quiesce/test/lab"
	"quiesce/test/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// rounds is how often 100 pods are drained at most, until the drain takes no longer than it should: this machine may be
// busy with something else.
const rounds = 3

// limit is for all of it.
const limit = 30 * time.Minute

// demo is one telling of the story.
type demo struct {
	out   string // directory
	image node.Image
	began time.Time

	mu     sync.Mutex
	o      drain.Outcome
	broken []string // promises
}

func run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	fmt.Println("Preparing the nodes (the first time it takes some minutes: tools are built, Debian and PostgreSQL are fetched) …")
	kit, err := node.Prepare(ctx)
	if err != nil {
		return err
	}
	d := &demo{out: filepath.Join(kit.Module(), "out"), began: time.Now()}
	if err := d.clear(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "demo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if d.image, err = drain.PostgresImage(ctx, dir); err != nil {
		return err
	}
	if err := d.tell(ctx); err != nil {
		return err
	}
	b, err := json.MarshalIndent(d.o, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.out, "drain.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	d.print()
	if len(d.broken) > 0 {
		return fmt.Errorf("a promise is broken: %s", strings.Join(d.broken, "; "))
	}
	return nil
}

// clear removes what an earlier telling left.
func (d *demo) clear() error {
	old, err := filepath.Glob(filepath.Join(d.out, "evidence", "drain-*"))
	if err != nil {
		return err
	}
	for _, f := range append(old, filepath.Join(d.out, "drain.json"), filepath.Join(d.out, "drain-report.json"), filepath.Join(d.out, "drain.svg")) {
		if err := os.RemoveAll(f); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(d.out, "evidence"), 0o755)
}

// tell plays the scenes: the databases and the fence beside each other, then the hundred pods with the machine to itself.
func (d *demo) tell(ctx context.Context) error {
	g, some := errgroup.WithContext(ctx)
	for _, w := range drain.Ways() {
		g.Go(func() error {
			if err := d.postgres(some, w); err != nil {
				return fmt.Errorf("PostgreSQL, %s: %w", w.Name, err)
			}
			return nil
		})
	}
	g.Go(func() error {
		if err := d.fence(some); err != nil {
			return fmt.Errorf("fence: %w", err)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range rounds {
		done, err := d.order(ctx, i+1)
		if err != nil {
			return fmt.Errorf("order: %w", err)
		}
		if done {
			break
		}
	}
	o := d.o.Order
	d.promise(o.Over() <= 0, "the drain of %d pods took %.2f s, it should take %.2f s at most", o.Pods, o.Makespan, o.Limit())
	return nil
}

func (d *demo) say(format string, a ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Printf("%7.1f s  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, a...))
}

// promise notes that one is broken unless ok.
func (d *demo) promise(ok bool, format string, a ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !ok {
		d.broken = append(d.broken, fmt.Sprintf(format, a...))
	}
}

func (d *demo) keep(file string, data []byte) error {
	return os.WriteFile(filepath.Join(d.out, "evidence", "drain-"+file), data, 0o644)
}

// on boots a node for a scene.
func on(ctx context.Context, o lab.Options, scene func(*lab.Lab, *drain.Kubelet) error) (err error) {
	l, k, err := drain.Boot(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return scene(l, k)
}
