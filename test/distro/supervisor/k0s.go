package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"
)

const (
	k0sConfig  = "/etc/k0s/containerd.toml"
	k0sDropins = "/etc/k0s/containerd.d"
	k0sMerged  = "/run/k0s/containerd-cri.toml"
	k0sSocket  = "/run/k0s/containerd.sock"
	debounce   = 3 * time.Second
)

// k0s merges the drop-ins, runs containerd, and runs it again after something has happened in their directory
// (k0s pkg/component/worker/containerd).
func k0s(ctx context.Context) error {
	events := make(chan error)
	if err := watch(events); err != nil {
		return err
	}
	go func() { _ = ready(ctx, k0sSocket) }() // it ends with the program
	for ctx.Err() == nil {
		if err := merge(); err != nil {
			return err
		}
		cmd, err := start("--root=/var/lib/containerd", "--state=/run/k0s/containerd", "--address="+k0sSocket, "--log-level=info", "--config="+k0sConfig)
		if err != nil {
			return err
		}
		if err := supervise(ctx, cmd, events); err != nil {
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
	return nil
}

// supervise returns when containerd has ended, by itself or because of events.
func supervise(ctx context.Context, cmd *exec.Cmd, events <-chan error) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var calm <-chan time.Time
	for {
		select {
		case err := <-events:
			if err != nil {
				return err
			}
			calm = time.After(debounce)
		case <-calm:
			fmt.Println("supervisor: drop-ins have changed, SIGHUP")
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				return err
			}
			calm = nil
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			fmt.Println("supervisor: containerd ended:", <-ended)
			return nil
		case err := <-ended:
			fmt.Println("supervisor: containerd ended:", err)
			return nil
		}
	}
}

// watch reports every change of the directory.
func watch(events chan<- error) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(fd, k0sDropins, unix.IN_CREATE|unix.IN_MODIFY|unix.IN_MOVE|unix.IN_DELETE); err != nil {
		return err
	}
	go func() {
		b := make([]byte, 4096)
		for {
			_, err := unix.Read(fd, b)
			events <- err
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// merge writes the tables of all drop-ins into the one file that containerd imports.
func merge() error {
	files, err := filepath.Glob(k0sDropins + "/*.toml")
	if err != nil {
		return err
	}
	slices.Sort(files)
	all := map[string]any{"version": int64(3)}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var tree map[string]any
		if err := toml.Unmarshal(b, &tree); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if v, ok := tree["version"]; ok && v != int64(3) {
			return fmt.Errorf("%s: version %v is not 3", f, v) // k0s from 1.36 on does not start then
		}
		overlay(all, tree)
	}
	b, err := toml.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(k0sMerged, b, 0o644)
}

func overlay(onto, from map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		below, ok := from[key].(map[string]any)
		there, both := onto[key].(map[string]any)
		if ok && both {
			overlay(there, below)
		} else {
			onto[key] = from[key]
		}
	}
}
