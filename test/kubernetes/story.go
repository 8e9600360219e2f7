package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quiesce/test/kube"
	"quiesce/test/lab"
)

// Report is out/kubernetes.json.
type Report struct {
	Naive     kube.Outcome `json:"naive"`
	Quiesce   kube.Outcome `json:"quiesce"`
	ImageOnly kube.Outcome `json:"image_only"`
	Handlers  []string     `json:"runtime_handlers"` // in the node's status, after quiesce's installer
}

// Seen is what the report does not hold.
type Seen struct {
	Early     bool      // the pod of the RuntimeClass was scheduled before its handler was live
	Live      time.Time // when the handler was
	Scheduled time.Time // when the pod was, in whole seconds
	Exit      int       // the pod's exit code
	Restarts  int       // of containerd, over both Jobs with quiesce and the removal between them
}

// Story is the reported Job on a plain node, then with quiesce.
type Story struct {
	Dir string // where evidence goes
	Say func(format string, a ...any)
}

// shim is the handler of the story; classExit the exit code of the pod that uses it.
const (
	shim      = "spin-v2"
	classExit = 7
)

// NaiveOptions are those of a cluster without quiesce.
func NaiveOptions(name string) kube.Options {
	return kube.Options{Lab: lab.Options{Name: name, NoHost: true, Shims: []string{shim}}}
}

// Options are those of a cluster with quiesce.
func Options(name string, shims ...string) kube.Options {
	return kube.Options{Lab: lab.Options{Name: name, Quiet: time.Second, Shims: append([]string{shim}, shims...)}}
}

// Naive runs the reported Job in its reported form on a node without quiesce.
func (s Story) Naive(ctx context.Context, c *kube.Cluster) (kube.Outcome, error) {
	job := kube.Reported{Operation: "install", Shim: shim}
	s.Say("The reported Job, on a plain node: it copies the shim, edits containerd's config, and sends containerd SIGHUP.")
	if err := c.Report(ctx, job); err != nil {
		return kube.Outcome{}, err
	}
	o, err := c.Outcome(ctx, "default", job.Name())
	if err != nil {
		return o, err
	}
	s.Say("It ended: %s.", o)
	return o, c.Keep(ctx, filepath.Join(s.Dir, "naive"))
}

// Quiesce runs quiesce's installer Job in its place, and at the same time makes a pod of the new RuntimeClass; then it
// removes the handler and runs the reported Job with nothing changed but its image.
func (s Story) Quiesce(ctx context.Context, c *kube.Cluster, r *Report) (seen Seen, err error) {
	before, err := c.Runtime(ctx)
	if err != nil {
		return seen, err
	}
	watch, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); c.Discover(watch) }()
	defer func() { stop(); <-done }()
	if err := s.install(ctx, c, r, &seen); err != nil {
		return seen, err
	}
	if err := s.uninstall(ctx, c); err != nil {
		return seen, err
	}
	if err := s.imageOnly(ctx, c, r); err != nil {
		return seen, err
	}
	after, err := c.Runtime(ctx)
	seen.Restarts = after.Restarts - before.Restarts
	return seen, err
}

func (s Story) install(ctx context.Context, c *kube.Cluster, r *Report, seen *Seen) error {
	jobs, err := kube.InstallerJobs(ctx, shim)
	if err != nil {
		return err
	}
	s.Say("The same Job with quiesce's installer in its place, and at the same time a pod that wants the new handler.")
	if err := c.Apply(ctx, kube.RuntimeClass(shim), jobs, kube.PodYAML("app", shim, fmt.Sprintf("exit %d", classExit))); err != nil {
		return err
	}
	if err := s.watchPod(ctx, c, seen); err != nil {
		return err
	}
	if r.Quiesce, err = c.Outcome(ctx, kube.InstallerNamespace, shim+"-install"); err != nil {
		return err
	}
	s.Say("It ended: %s.", r.Quiesce)
	live, err := c.WaitJob(ctx, kube.InstallerNamespace, shim+"-live")
	if err != nil {
		return err
	}
	if !live.Is("Complete") {
		return fmt.Errorf("the Job that waits for the result has failed: %+v", live.Status.Conditions)
	}
	if r.Handlers, err = s.handlers(ctx, c, true); err != nil {
		return err
	}
	p, err := c.WaitPod(ctx, "default", "app", "Failed") // its exit code is not 0
	if err != nil {
		return err
	}
	for _, end := range p.Ends() {
		seen.Exit = end.ExitCode
	}
	s.Say("The pod was scheduled when the handler was live, ran, and ended with its own exit code %d.", seen.Exit)
	return c.Keep(ctx, filepath.Join(s.Dir, "quiesce"))
}

// watchPod looks at the pod before it looks at the handler, so that a pod that is early is always seen.
func (s Story) watchPod(ctx context.Context, c *kube.Cluster, seen *Seen) error {
	return c.Until(ctx, "the pod of the RuntimeClass is scheduled and the handler live", func(ctx context.Context) (bool, error) {
		p, err := c.Pod(ctx, "default", "app")
		if err != nil {
			return false, err
		}
		results, err := c.Results(ctx)
		if err != nil {
			return false, err
		}
		live := results[shim].Phase == "live"
		scheduled, at := p.Is("PodScheduled")
		scheduled = scheduled && p.Spec.NodeName != ""
		if scheduled && !live {
			seen.Early = true
		}
		if live {
			seen.Live = results[shim].Updated
		}
		seen.Scheduled = at
		return scheduled && live, nil
	})
}

// handlers waits until the node's status lists the handler, or no longer does.
func (s Story) handlers(ctx context.Context, c *kube.Cluster, there bool) (names []string, err error) {
	err = c.Until(ctx, fmt.Sprintf("node.status.runtimeHandlers has %s: %v", shim, there), func(ctx context.Context) (bool, error) {
		n, err := c.NodeStatus(ctx)
		names = n.Handlers()
		return err == nil && slices.Contains(names, shim) == there, nil
	})
	return names, err
}

func (s Story) uninstall(ctx context.Context, c *kube.Cluster) error {
	if err := c.Delete(ctx, "default", "pod/app"); err != nil {
		return err
	}
	if err := c.Apply(ctx, kube.UninstallJob(shim+"-uninstall", shim)); err != nil {
		return err
	}
	o, err := c.Outcome(ctx, kube.InstallerNamespace, shim+"-uninstall")
	if err != nil {
		return err
	}
	if !o.Clean() {
		return fmt.Errorf("the uninstall Job ended: %s", o)
	}
	if _, err = c.WaitPhase(ctx, shim, "removed"); err == nil {
		_, err = s.handlers(ctx, c, false)
	}
	return err
}

func (s Story) imageOnly(ctx context.Context, c *kube.Cluster, r *Report) (err error) {
	job := kube.Reported{Operation: "install", Shim: shim, Image: lab.InstallerImage}
	s.Say("The handler is taken off again. Now the reported Job with nothing changed but its image.")
	if err := c.Report(ctx, job); err != nil {
		return err
	}
	if r.ImageOnly, err = c.Outcome(ctx, "default", job.Name()); err != nil {
		return err
	}
	s.Say("It ended: %s.", r.ImageOnly)
	if _, err = c.WaitPhase(ctx, shim, "live"); err == nil {
		_, err = s.handlers(ctx, c, true)
	}
	return errors.Join(err, c.Keep(ctx, filepath.Join(s.Dir, "image-only")))
}

// Broken says which promises were broken, or nothing.
func (r Report) Broken(seen Seen) error {
	var errs []error
	fail := func(ok bool, format string, a ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	fail(r.Quiesce.Clean(), "with quiesce's installer the Job should have one pod, Completed, exit 0; it ended: %s", r.Quiesce)
	fail(r.ImageOnly.Clean(), "with only its image changed the Job should have one pod, Completed, exit 0; it ended: %s", r.ImageOnly)
	fail(slices.Contains(r.Handlers, shim), "node.status.runtimeHandlers does not list %s: %s", shim, strings.Join(r.Handlers, ", "))
	fail(!seen.Early && !seen.Scheduled.Before(seen.Live.Truncate(time.Second)),
		"the pod of the RuntimeClass was scheduled at %s, before its handler was live at %s", seen.Scheduled, seen.Live)
	fail(seen.Exit == classExit, "the pod of the RuntimeClass ended with exit code %d, not %d", seen.Exit, classExit)
	fail(seen.Restarts == 3, "containerd was restarted %d times for two installs and a removal", seen.Restarts)
	return errors.Join(errs...)
}

// Reproduced says whether the plain node shows what is reported; if it does not, the comparison means nothing.
func (r Report) Reproduced() error {
	o := r.Naive
	if o.Pods == 2 && o.Failed == 1 && o.Succeeded == 1 && len(o.ExitCodes) == 2 && o.ExitCodes[0] == 255 && o.Reasons[0] == "Unknown" && o.ExitCodes[1] == 0 {
		return nil
	}
	return fmt.Errorf("on the plain node the first pod should have ended 255 Unknown, and a second one Completed; the Job ended: %s", o)
}
