package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"
)

const (
	k3sDir    = "/var/lib/rancher/k3s/agent/etc/containerd"
	k3sSocket = "/run/k3s/containerd/containerd.sock"
	// k3sBase is the template called base, which a template of the operator's builds on. The test puts it there.
	k3sBase = "/usr/share/k3s/base.tmpl"
)

// k3s renders the config, as k3s does at each start, and runs containerd (k3s pkg/agent/templates, docs/advanced).
func k3s(ctx context.Context) error {
	config := filepath.Join(k3sDir, "config.toml")
	if err := render(config); err != nil {
		return err
	}
	cmd, err := start("-c", config, "-a", k3sSocket, "--state", "/run/k3s/containerd", "--root", "/var/lib/containerd")
	if err != nil {
		return err
	}
	go func() { _ = ready(ctx, k3sSocket) }() // it ends with the program
	go func() {
		<-ctx.Done()
		_ = cmd.Process.Signal(os.Interrupt)
	}()
	if err := cmd.Wait(); ctx.Err() == nil {
		return fmt.Errorf("containerd ended: %w", err)
	}
	return nil
}

func render(config string) error {
	if err := os.MkdirAll(filepath.Join(k3sDir, "config-v3.toml.d"), 0o755); err != nil {
		return err
	}
	base, err := os.ReadFile(k3sBase)
	if err != nil {
		return err
	}
	t, err := template.New("base").Parse(string(base))
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(k3sDir, "config-v3.toml.tmpl"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if t, err = t.New("config").Parse(string(own)); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	if err := t.Execute(&out, map[string]any{"Dir": k3sDir}); err != nil {
		return err
	}
	return os.WriteFile(config, out.Bytes(), 0o644)
}
