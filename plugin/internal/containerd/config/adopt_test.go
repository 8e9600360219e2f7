package config

import (
	"fmt"
	"strings"
	"testing"
)

// theirs is a handler spin of somebody else's, in several shapes below a plugin id.
var theirs = map[string]string{
	"tables": "# a\n[plugins.'%[1]s'.containerd.runtimes.spin] # why\n  runtime_type = \"io.containerd.spin.v1\"\n\n  # keep\n  [plugins.'%[1]s'.containerd.runtimes.spin.options]\n" +
		"    a = '''\n  two lines\n'''\n[plugins.'%[1]s'.containerd.runtimes.other]\n  runtime_type = 'io.containerd.x.v1'\n",
	"windows":     "[plugins.'%[1]s'.containerd.runtimes.spin]\r\nruntime_type = 'io.containerd.spin.v1'\r\n[debug]\r\n",
	"dotted keys": "[plugins.'%[1]s'.containerd]\nruntimes.spin.runtime_type = 'io.containerd.spin.v1'\nruntimes.spin.snapshotter = 'native'\nsnapshotter = 'overlayfs'\n",
	"last line":   "[plugins.'%[1]s'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n[plugins.'%[1]s'.containerd.runtimes.spin]\nruntime_type = 'io.containerd.spin.v1'",
	"inline":      "[plugins.'%[1]s'.containerd.runtimes]\nspin = {runtime_type = 'io.containerd.spin.v1'}\nrunc = {runtime_type = 'io.containerd.runc.v2'}\n",
}

func TestAdopt(t *testing.T) {
	adopting := spin
	adopting.Adopt = true
	for _, version := range []string{legacyVersion, "2.2.9", "2.4.2"} {
		for name, text := range theirs {
			t.Run(version+"/"+name, func(t *testing.T) {
				files := map[string]string{"config.toml": "version = 2\n" + fmt.Sprintf(text, pluginV2)}
				dir, path := etc(t, files)
				at := Place{Root: path, Version: version}
				if _, err := mustRead(t, at).Change([]Handler{spin}); err == nil || !strings.Contains(err.Error(), "--adopt") {
					t.Fatalf("a conflict that names no choice: %v", err)
				}
				step(t, at, []Handler{adopting}, nil)
				if where, foreign := mustRead(t, at).Foreign("spin"); foreign {
					t.Fatalf("still foreign: %s", where)
				}
				step(t, at, []Handler{spin, kata}, nil) // without the word it stays adopted
				step(t, at, nil, []string{"spin", "kata-qemu"})
				same(t, "files", files, snapshot(t, dir))
			})
		}
	}
}

// step changes what is ours, checked.
func step(t *testing.T, at Place, want []Handler, gone []string) {
	t.Helper()
	c := mustRead(t, at)
	changes, err := c.Change(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), "", c, changes, want, gone); err != nil {
		t.Fatal(err)
	}
	apply(t, changes)
	if again := plan(t, at, want...); len(again) != 0 {
		t.Fatalf("not idempotent: %+v", again)
	}
}

// TestAdoptRefused are handlers that cannot be taken out of their file.
func TestAdoptRefused(t *testing.T) {
	adopting, runc := spin, Handler{Name: "runc", Type: "/opt/runc", Adopt: true}
	adopting.Adopt = true
	inline := "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\nruntimes = {spin = {runtime_type = 'a'}}\n"
	for _, version := range []string{legacyVersion, "2.4.2"} {
		dir, path := etc(t, map[string]string{"config.toml": inline})
		c := mustRead(t, Place{Root: path, Version: version})
		for _, h := range []Handler{adopting, runc} {
			if changes, err := c.Change([]Handler{h}); err == nil {
				t.Errorf("%s: no error, but %+v", version, changes)
			}
		}
		c = mustRead(t, Place{Root: path, Version: version, Template: path + ".tmpl"})
		if _, err := c.Change([]Handler{adopting}); err == nil || !strings.Contains(err.Error(), "made anew") {
			t.Errorf("%s: from a template: %v", version, err)
		}
		same(t, "files", map[string]string{"config.toml": inline}, snapshot(t, dir))
	}
}

// TestAdoptedAnew has somebody write their handler again below the one that is kept as comments.
func TestAdoptedAnew(t *testing.T) {
	adopting := spin
	adopting.Adopt = true
	root := "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.spin]\nruntime_type = 'io.containerd.spin.v1'\n"
	dir, path := etc(t, map[string]string{"config.toml": root})
	at := Place{Root: path}
	apply(t, plan(t, at, adopting))
	again := snapshot(t, dir)["config.toml"] + strings.TrimPrefix(root, "version = 3\n")
	write(t, path, again)
	if _, err := mustRead(t, at).Change([]Handler{spin}); err == nil {
		t.Fatal("no conflict")
	}
	apply(t, plan(t, at))
	if got := snapshot(t, dir)["config.toml"]; !strings.HasSuffix(got, root[len("version = 3\n"):]) || len(snapshot(t, dir)) != 1 {
		t.Fatalf("files: %q", snapshot(t, dir))
	}
}
