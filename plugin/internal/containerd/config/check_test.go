package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckRefuses(t *testing.T) {
	missing := "version = 3\nimports = ['gone.toml']\n"
	tests := map[string]struct {
		files map[string]string
		twist func(changes []Change) []Change
		want  string
	}{
		"missing import":  {files: map[string]string{"config.toml": missing}, want: "config.toml:2: imports "},
		"default runtime": {files: map[string]string{"config.toml": "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'x'\n"}, want: "default_runtime_name"},
		"cri disabled":    {files: map[string]string{"config.toml": "disabled_plugins = ['io.containerd.grpc.v1.cri']\n"}, want: "disabled_plugins"},
		"bad plugin list": {files: map[string]string{"config.toml": "version = 3\nrequired_plugins = ['x']\n"}, want: "load with containerd's loader"},
		"no drop-in":      {twist: func(ch []Change) []Change { return ch[1:] }, want: `handler "spin" would not be there`},
		"more than ours": {twist: func(ch []Change) []Change {
			ch[0].New = append(ch[0].New, "[debug]\nlevel = 'debug'\n"...)
			return ch
		}, want: "more would change than our handlers: debug.level"},
		"someone's file comes alive": {
			files: map[string]string{"config.toml": "version = 3\n", "conf.d/quiesce-x.toml": "oom_score = 1\n"},
			want:  "more would change than our handlers: oom_score",
		},
		"drop-in breaks": {twist: func(ch []Change) []Change { ch[0].New = []byte("x\n"); return ch }, want: "quiesce-spin.toml:1: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.files == nil {
				tt.files = map[string]string{"config.toml": "version = 3\n"}
			}
			dir, path := etc(t, tt.files)
			c := read(t, path)
			changes, err := c.Change([]Handler{spin})
			if err != nil {
				t.Fatal(err)
			}
			if tt.twist != nil {
				changes = tt.twist(changes)
			}
			err = Check(t.Context(), "", c, changes, []Handler{spin}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got error %v, want one with %q", err, tt.want)
			}
			same(t, "the directory", tt.files, snapshot(t, dir))
		})
	}
}

// TestCheckGone finds a handler that another file brings in spite of its removal.
func TestCheckGone(t *testing.T) {
	_, path := etc(t, map[string]string{"config.toml": "version = 3\n"})
	apply(t, change(t, path, spin))
	c := read(t, path)
	err := Check(t.Context(), "", c, nil, nil, []string{"spin"})
	if err == nil || !strings.Contains(err.Error(), `handler "spin" would still be there`) {
		t.Fatal(err)
	}
}

// TestPatternOverRoot has an import whose pattern matches the root itself and the drop-ins' directory.
func TestPatternOverRoot(t *testing.T) {
	dir, path := etc(t, map[string]string{"config.toml": "version = 3\nimports = ['*.toml', '*.d/*.toml']\n", "a.toml": "oom_score = 3\n"})
	roundTrip(t, dir, path)
}

// fake writes a program that stands in for containerd.
func fake(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "containerd")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDumpFails(t *testing.T) {
	tests := map[string]struct{ script, want string }{
		"exit code": {"echo one >&2; echo two >&2; exit 3", "exit status 3: one; two"},
		"no toml":   {"echo '['", "containerd cannot read this file"},
		"nothing":   {"", "the output has no version"},
		"lost":      {"echo 'version = 4'", `handler "spin" would not be there`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, path := etc(t, nil)
			c := read(t, path)
			changes := change(t, path, spin)
			err := Check(t.Context(), fake(t, tt.script), c, changes, []Handler{spin}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
	_, path := etc(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	if err := Check(ctx, fake(t, "exec tail -f /dev/null"), read(t, path), nil, nil, nil); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Fatalf("a cancelled check: %v", err)
	}
}

// TestDumpEnvironment wants the child to see nothing of ours.
func TestDumpEnvironment(t *testing.T) {
	t.Setenv("SECRET", "x")
	_, path := etc(t, nil)
	err := Check(t.Context(), fake(t, `test -z "$SECRET" || exit 9; test "$PWD" = "$TMPDIR" || exit 8; exit 7`), read(t, path), nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Fatal(err)
	}
}

// TestRealDump asks a real containerd, whose dump has the runtimes under the new plugin id whatever the root's version.
func TestRealDump(t *testing.T) {
	binary := program(t)
	for name, root := range roots {
		t.Run(name, func(t *testing.T) {
			_, path := etc(t, map[string]string{"config.toml": root})
			apply(t, change(t, path, spin, kata))
			tree, err := dumper{binary: binary, dir: t.TempDir()}.tree(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			runtimes := treeSource(tree).runtimes(pluginV3)
			if runtimes["spin"] == nil || runtimes["kata-qemu"] == nil || runtimes["runc"] == nil {
				t.Fatalf("runtimes: %v", sortedKeys(runtimes))
			}
		})
	}
	_, path := etc(t, map[string]string{"config.toml": "version = 3\n"})
	h := spin
	h.Settings = map[string]any{"snapshoter": "typo"}
	c := read(t, path)
	changes := change(t, path, h)
	if err := Check(t.Context(), binary, c, changes, []Handler{h}, nil); err == nil || !strings.Contains(err.Error(), "snapshoter") {
		t.Fatalf("a setting that containerd does not know: %v", err)
	}
}
