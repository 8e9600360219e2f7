package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"quiesce/test/lab"
)

// keep writes what a command of the node printed.
func keep(ctx context.Context, l *lab.Lab, file string, argv ...string) error {
	out, err := l.Exec(ctx, argv...)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(out), 0o644)); err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	return nil
}

func inspect(ctx context.Context, l *lab.Lab, dir, name, id string) error {
	return keep(ctx, l, filepath.Join(dir, name+".json"), "crictl", "inspect", "-o", "json", id)
}

// journal keeps the journal of units, as JSON.
func journal(ctx context.Context, l *lab.Lab, dir, name string, units ...string) error {
	argv := []string{"journalctl", "-o", "json"}
	for _, u := range units {
		argv = append(argv, "-u", u)
	}
	return keep(ctx, l, filepath.Join(dir, name+".journal.json"), argv...)
}

func show(ctx context.Context, l *lab.Lab, dir, when string) error {
	return keep(ctx, l, filepath.Join(dir, "containerd."+when+".txt"), "systemctl", "show", "containerd.service")
}

// unknown counts the containers that CRI reports with reason Unknown.
func unknown(ctx context.Context, l *lab.Lab) (int, error) {
	ids, err := l.Exec(ctx, "crictl", "ps", "--all", "--quiet")
	if err != nil {
		return 0, err
	}
	n := 0
	for id := range strings.FieldsSeq(ids) {
		out, err := l.Exec(ctx, "crictl", "inspect", "-o", "json", id)
		if err != nil {
			return 0, err
		}
		var c struct {
			Status struct{ State, Reason string }
		}
		if err := json.Unmarshal([]byte(out), &c); err != nil {
			return 0, fmt.Errorf("read crictl's JSON: %w", err)
		}
		if c.Status.Reason == "Unknown" || c.Status.State == "CONTAINER_UNKNOWN" {
			n++
		}
	}
	return n, nil
}

// versions asks each part for its own.
func versions(ctx context.Context, l *lab.Lab) (map[string]string, error) {
	v := map[string]string{}
	for name, argv := range map[string][]string{
		"quiesce":    {"/opt/quiesce/bin/quiesce", "--version"},
		"containerd": {"containerd", "--version"},
		"runc":       {"runc", "--version"},
		"crictl":     {"crictl", "--version"},
		"systemd":    {"systemctl", "--version"},
		"linux":      {"uname", "-r"},
	} {
		out, err := l.Exec(ctx, argv...)
		if err != nil {
			return nil, err
		}
		v[name], _, _ = strings.Cut(strings.TrimSpace(out), "\n")
	}
	return v, nil
}
