package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/test/lab"
)

// withQuiesce is the story of three installers.
func withQuiesce(ctx context.Context, evidence string, hold, code int) (s told, v map[string]string, err error) {
	handlers := []string{"spin-v2", "wasmtime-v1", "slight-v1"}
	l, err := lab.Boot(ctx, lab.Options{Name: "demo", Quiet: 5 * time.Second, Shims: handlers})
	if err != nil {
		return s, v, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if v, err = versions(ctx, l); err != nil {
		return s, v, err
	}
	dir := filepath.Join(evidence, "quiesce")
	if err := show(ctx, l, dir, "before"); err != nil {
		return s, v, err
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	gap := watchCRI(watch, l)
	if err := s.install(ctx, l, dir, handlers, hold); err != nil {
		return s, v, err
	}
	for _, h := range handlers {
		if _, err := l.WaitPhase(ctx, h, "live"); err != nil {
			return s, v, err
		}
	}
	stop()
	s.UnansweredMS = gap().Milliseconds()
	if err := s.use(ctx, l, dir, handlers, code); err != nil {
		return s, v, err
	}
	return s, v, s.observe(ctx, l, dir)
}

// install runs the installers; the last one begins like the others and stays longer.
func (s *told) install(ctx context.Context, l *lab.Lab, dir string, handlers []string, hold int) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for i, h := range handlers {
		g.Go(func() error {
			stay := i
			if i == len(handlers)-1 {
				stay += hold
			}
			name := "node1-" + h + "-install"
			p, err := l.RunPod(ctx, lab.InstallPod(name, h, i, stay))
			if err != nil {
				return err
			}
			gone := time.Now()
			st, err := p.Status(ctx, "main")
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			s.Installers = append(s.Installers, installer{Pod: name, ExitCode: st.GetExitCode(), Reason: st.GetReason(), FinishedAt: time.Unix(0, st.GetFinishedAt()).UTC()})
			if gone.After(s.LastInstallerGone) {
				s.LastInstallerGone = gone.UTC()
			}
			fmt.Printf("   %s has staged %s and is gone.\n", name, h)
			return inspect(ctx, l, dir, name, p.ID("main"))
		})
	}
	fmt.Printf("   Three installers stage three handlers; the last one stays %d s longer …\n", hold)
	return g.Wait()
}

// use runs a pod with each handler.
func (s *told) use(ctx context.Context, l *lab.Lab, dir string, handlers []string, code int) error {
	for _, h := range handlers {
		p, err := l.RunPod(ctx, lab.HandlerPod("app-"+h, h, fmt.Sprintf("exit %d", code)))
		if err != nil {
			return err
		}
		st, err := p.Status(ctx, "main")
		if err != nil {
			return err
		}
		s.Handlers = append(s.Handlers, handler{Name: h, PodExitCode: st.GetExitCode()})
		if err := inspect(ctx, l, dir, "app-"+h, p.ID("main")); err != nil {
			return err
		}
	}
	return nil
}

// observe reads from systemd and CRI what came of it.
func (s *told) observe(ctx context.Context, l *lab.Lab, dir string) error {
	starts, err := l.Starts(ctx)
	if err != nil {
		return err
	}
	s.Restarts = len(starts) - 1
	if stops, err := l.Stops(ctx); err != nil {
		return err
	} else if len(stops) > 0 {
		s.RestartBegan = stops[0].UTC()
	}
	if s.UnknownExits, err = unknown(ctx, l); err != nil {
		return err
	}
	return errors.Join(show(ctx, l, dir, "after"),
		journal(ctx, l, dir, "containerd", "containerd.service"),
		journal(ctx, l, dir, "quiesce", "quiesce.service", "quiesce-apply.service"))
}

// watchCRI asks CRI for its version all the time; the function it returns waits for the end of the watch and tells the
// longest time without an answer.
func watchCRI(ctx context.Context, l *lab.Lab) func() time.Duration {
	longest := make(chan time.Duration, 1)
	go func() {
		var gap time.Duration
		last := time.Now()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if answers(ctx, l) {
				gap, last = max(gap, time.Since(last)), time.Now()
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		longest <- gap
	}()
	return func() time.Duration { return <-longest }
}

func answers(ctx context.Context, l *lab.Lab) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := l.Conn(ctx)
	if err != nil {
		return false
	}
	conn.ResetConnectBackoff()
	_, err = runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{})
	return err == nil
}
