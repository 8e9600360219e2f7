package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	respawn    = 5 * time.Second
	criV2      = "io.containerd.grpc.v1.cri"
)

// k0s makes the config, runs containerd, and runs it again after something has happened in the directory of drop-ins
// (k0s pkg/component/worker/containerd, pkg/supervisor). With containerd 2 it is as since 1.36, and else as before.
func k0s(ctx context.Context) error {
	version, err := exec.Command("/usr/local/bin/containerd", "--version").Output()
	if err != nil {
		return err
	}
	setup := imported
	if fields := strings.Fields(string(version)); len(fields) > 2 && strings.HasPrefix(strings.TrimPrefix(fields[2], "v"), "1.") {
		setup = merged
	}
	if err := setup(); err != nil {
		return err
	}
	events := make(chan error)
	if err := watch(events); err != nil {
		return err
	}
	go func() { _ = ready(ctx, k0sSocket) }() // it ends with the program
	for ctx.Err() == nil {
		cmd, err := start("--root=/var/lib/k0s/containerd", "--state=/run/k0s/containerd", "--address="+k0sSocket, "--log-level=info", "--config="+k0sConfig)
		if err != nil {
			return err
		}
		if err := supervise(ctx, cmd, events, setup); err != nil {
			return err
		}
		pause(ctx, respawn)
	}
	return nil
}

// supervise returns when containerd has ended, by itself or because of events.
func supervise(ctx context.Context, cmd *exec.Cmd, events <-chan error, setup func() error) error {
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
			calm = nil
			if err := setup(); err != nil {
				fmt.Println("supervisor: drop-ins have changed, but:", err)
				continue
			}
			fmt.Println("supervisor: drop-ins have changed, SIGHUP")
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				return err
			}
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

// managed writes the root, unless somebody has made it theirs.
func managed(tree map[string]any) error {
	const head = "# k0s_managed=true\n"
	text, err := os.ReadFile(k0sConfig)
	if err == nil && !bytes.HasPrefix(text, []byte(head)) || err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text, err = toml.Marshal(tree)
	return errors.Join(err, os.WriteFile(k0sConfig, append([]byte(head), text...), 0o644))
}

// imported has containerd import the drop-ins.
func imported() error {
	return managed(map[string]any{
		"version": int64(3), "imports": []string{k0sDropins + "/*.toml"},
		"plugins": map[string]any{"io.containerd.cri.v1.images": map[string]any{}, "io.containerd.cri.v1.runtime": map[string]any{}},
	})
}

// merged puts the drop-ins that have tables of CRI over what containerd has for it by default, and imports the others.
func merged() error {
	files, err := filepath.Glob(k0sDropins + "/*.toml")
	if err != nil {
		return err
	}
	text, err := exec.Command("/usr/local/bin/containerd", "config", "default").Output()
	if err != nil {
		return err
	}
	all, err := tree("config default", text)
	if err != nil {
		return err
	}
	all = map[string]any{"version": int64(2), "plugins": map[string]any{criV2: tables(all)[criV2]}}
	imports := []string{}
	slices.Sort(files)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		t, err := tree(f, text)
		if err != nil {
			return err
		}
		if tables(t)[criV2] == nil {
			imports = append(imports, f)
		} else {
			overlay(all, t)
		}
	}
	if text, err = toml.Marshal(all); err != nil {
		return err
	}
	if err := os.WriteFile(k0sMerged, text, 0o644); err != nil {
		return err
	}
	return managed(map[string]any{"version": int64(2), "imports": append(imports, k0sMerged)})
}

func tree(name string, text []byte) (t map[string]any, err error) {
	if err = toml.Unmarshal(text, &t); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return t, err
}

func tables(t map[string]any) map[string]any {
	plugins, _ := t["plugins"].(map[string]any)
	return plugins
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
