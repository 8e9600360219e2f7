// Command soak lets pods and changes come and go on a node for a long time, and looks whether the daemon grows: its
// memory, file descriptors and goroutines over time go to out/soak.json, and as a picture to out/soak.svg. It fails if they do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// sample is the daemon at a moment.
type sample struct {
	At         float64 `json:"at_s"`
	RSS        int     `json:"rss_kib"`
	Files      int     `json:"fds"`
	Threads    int     `json:"threads"`
	Goroutines int     `json:"goroutines"`
	Done       int     `json:"restarts"` // of containerd, through the gate
}

// outcome is out/soak.json.
type outcome struct {
	Minutes  float64  `json:"minutes"`
	Pods     int      `json:"pods"`
	Stuck    int      `json:"stuck_pods"` // their container never ran, or could not be removed
	Changes  int      `json:"changes"`
	Restarts int      `json:"restarts"`
	Grew     []string `json:"grew"`
	Samples  []sample `json:"samples"`
}

func main() {
	lasts := flag.Duration("time", 2*time.Hour, "how long")
	every := flag.Duration("every", 10*time.Second, "time between looks at the daemon")
	out := flag.String("out", "out", "the `directory` of soak.json and soak.svg")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *lasts, *every, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, lasts, every time.Duration, dir string) error {
	l, err := lab.Boot(ctx, lab.Options{Name: "soak", Quiet: 300 * time.Millisecond, Config: "undecidedTimeout = '1s'"})
	if err != nil {
		return err
	}
	o := outcome{}
	err = errors.Join(o.churn(ctx, l, lasts, every), l.Close())
	if len(o.Samples) == 0 {
		return err
	}
	o.judge()
	text, jerr := json.MarshalIndent(o, "", " ")
	err = errors.Join(err, jerr, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "soak.json"), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "soak.svg"), o.picture(), 0o644))
	last := o.Samples[len(o.Samples)-1]
	fmt.Printf("%.0f minutes, %d pods (%d stuck), %d changes, %d restarts: %d KiB, %d file descriptors, %d threads, %d goroutines at the end\n",
		o.Minutes, o.Pods, o.Stuck, o.Changes, o.Restarts, last.RSS, last.Files, last.Threads, last.Goroutines)
	if err == nil && len(o.Grew) > 0 {
		err = fmt.Errorf("the daemon grows: %v", o.Grew)
	}
	return err
}

// churn lets pods and changes come and go.
func (o *outcome) churn(ctx context.Context, l *lab.Lab, lasts, every time.Duration) error {
	began := time.Now()
	over := func() bool { return time.Since(began) > lasts || ctx.Err() != nil }
	var g errgroup.Group
	g.Go(func() error {
		for ; !over(); o.Pods++ {
			if err := onePod(ctx, l, o.Pods); err != nil && ctx.Err() == nil {
				o.Stuck++
				fmt.Printf("pod %d: %v\n", o.Pods, err)
			}
		}
		return nil
	})
	g.Go(func() error {
		for ; !over(); o.Changes++ {
			args := []string{"install", "--handler", "soak", "--runtime-type", "io.containerd.runc.v2"}
			if o.Changes%2 == 1 {
				args = []string{"uninstall", "--handler", "soak"}
			}
			if _, err := l.Installer(ctx, args...); err != nil {
				return err
			}
			phase := []string{"live", "removed"}[o.Changes%2]
			err := l.Until(ctx, "the change is "+phase, func(ctx context.Context) (bool, error) {
				rs, err := l.Results(ctx)
				return rs["soak"].Phase == phase || rs["soak"].Phase == "rejected", err // a machine with more to do may be too slow
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for !over() {
			<-tick.C
			s, err := look(ctx, l)
			if err != nil {
				return err
			}
			s.At = time.Since(began).Seconds()
			o.Samples = append(o.Samples, s)
		}
		return nil
	})
	err := g.Wait()
	o.Minutes = time.Since(began).Minutes()
	if n := len(o.Samples); n > 0 {
		o.Restarts = o.Samples[n-1].Done
	}
	return err
}

// onePod lets a pod come and go. A container that was made while containerd went down may never run (containerd#10437).
func onePod(ctx context.Context, l *lab.Lab, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	p, err := l.RunPod(ctx, node.Pod{Name: fmt.Sprintf("soak-%d", n), Containers: []node.Container{node.Shell("sleep 0.3; exit 3")}})
	if err != nil {
		return err
	}
	return l.Until(ctx, "the pod is removed", func(ctx context.Context) (bool, error) {
		return p.Remove(ctx) == nil, nil // its cgroup may be busy for a moment
	})
}

// look reads what the kernel says of the daemon.
func look(ctx context.Context, l *lab.Lab) (s sample, err error) {
	out, err := l.Exec(ctx, "sh", "-c", `p=/proc/$(systemctl show -p MainPID --value quiesce.service)
awk '/^VmRSS/ {print $2}' $p/status; ls $p/fd | wc -l; ls $p/task | wc -l
printf 'GET /metrics HTTP/1.0\r\n\r\n' | socat -t5 - UNIX-CONNECT:/run/quiesce/control.sock | awk '/^go_goroutines/ {print $2}'`)
	if err != nil {
		return s, err
	}
	if _, err := fmt.Sscan(out, &s.RSS, &s.Files, &s.Threads, &s.Goroutines); err != nil {
		return s, fmt.Errorf("read %q: %w", out, err)
	}
	st, err := l.Status(ctx)
	s.Done = st.LastRestart.Done
	return s, err
}

// judge compares the last quarter with the second one.
func (o *outcome) judge() {
	n := len(o.Samples)
	middle := func(from, to int, of func(sample) int) int {
		var all []int
		for _, s := range o.Samples[from:to] {
			all = append(all, of(s))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	o.Grew = []string{}
	for _, m := range []struct {
		name  string
		of    func(sample) int
		slack int
	}{
		{"memory", func(s sample) int { return s.RSS }, 3 << 10},
		{"file descriptors", func(s sample) int { return s.Files }, 6},
		{"threads", func(s sample) int { return s.Threads }, 6},
		{"goroutines", func(s sample) int { return s.Goroutines }, 10},
	} {
		before, after := middle(n/4, max(n/4+1, n/2), m.of), middle(3*n/4, n, m.of)
		if after > before+m.slack+before/10 {
			o.Grew = append(o.Grew, fmt.Sprintf("%s: %d, %d before", m.name, after, before))
		}
	}
}
