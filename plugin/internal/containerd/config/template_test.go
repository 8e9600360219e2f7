package config

import (
	"os"
	"strings"
	"testing"
)

func write(tb tester, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// TestTemplate edits what the root is made from, and leaves the root to whoever makes it.
func TestTemplate(t *testing.T) {
	k3s := "version = 3\n" + runcV3
	tests := map[string]struct {
		root, name, template string
		version              string
		made                 string // the template that counts
	}{
		"k3s, none":        {k3s, "config-v3.toml.tmpl", "", "2.1.5-k3s1", "config-v3.toml.tmpl"},
		"k3s":              {k3s, "config-v3.toml.tmpl", "{{ template \"base\" . }}\n[debug]\nlevel = '{{ .Level }}'", "2.1.5-k3s1", "config-v3.toml.tmpl"},
		"k3s, the old one": {k3s, "config.toml.tmpl", "{{ template \"base\" . }}\n", "2.1.5-k3s1", "config.toml.tmpl"},
		"k3s 1.7":          {"version = 2\n" + runcV2, "config.toml.tmpl", "", "v1.7.27-k3s1", "config.toml.tmpl"},
		"microk8s":         {"version = 2\n" + runcV2, "containerd-template.toml", "version = 2\nroot = '${SNAP_DATA}'\n" + runcV2, "1.7.27", "containerd-template.toml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"config.toml": tt.root}
			if tt.template != "" {
				files[tt.name] = tt.template
			}
			dir, path := etc(t, files)
			wanted := strings.Replace(tt.name, "config.toml.tmpl", "config-v3.toml.tmpl", 1)
			at := Place{Root: path, Version: tt.version, Template: dir + "/" + wanted}
			step(t, at, []Handler{kata}, nil)
			got := snapshot(t, dir)
			if got["config.toml"] != tt.root || !strings.HasPrefix(got[tt.made], tt.template) || !strings.Contains(got[tt.made], "kata-qemu") || len(got) != 2 {
				t.Fatalf("files: %q", got)
			}
			if tt.template == "" && !strings.Contains(got[tt.made], `{{ template "base" . }}`) {
				t.Fatalf("template: %q", got[tt.made])
			}
			write(t, path, tt.root+got[tt.made][strings.LastIndex(got[tt.made], regionBegin):]) // what the distribution makes of it
			step(t, at, nil, []string{"kata-qemu"})
			delete(files, "config.toml")
			got = snapshot(t, dir)
			delete(got, "config.toml")
			same(t, "files", files, got)
		})
	}
}

// TestTemplateWithDropins uses the directory that the root imports, and no template.
func TestTemplateWithDropins(t *testing.T) {
	files := map[string]string{"config.toml": "version = 3\nimports = ['config-v3.toml.d/*.toml']\n"}
	dir, path := etc(t, files)
	at := Place{Root: path, Version: "2.2.1-k3s1", Template: dir + "/config-v3.toml.tmpl"}
	step(t, at, []Handler{spin}, nil)
	if got := snapshot(t, dir); got["config-v3.toml.d/quiesce-spin.toml"] == "" || len(got) != 2 {
		t.Fatalf("files: %q", got)
	}
	step(t, at, nil, []string{"spin"})
	same(t, "files", files, snapshot(t, dir))
}

// TestTemplateMarks refuses values that the renderer would take for its own.
func TestTemplateMarks(t *testing.T) {
	dir, path := etc(t, map[string]string{"config.toml": "version = 3\n"})
	c := mustRead(t, Place{Root: path, Template: dir + "/config-v3.toml.tmpl"})
	for _, mark := range []string{"{{ .X }}", "${SNAP}"} {
		h := Handler{Name: "a", Type: "/a", Options: map[string]any{"k": mark}}
		if _, err := c.Change([]Handler{h}); err == nil || !strings.Contains(err.Error(), "config-v3.toml.tmpl") {
			t.Errorf("%s: %v", mark, err)
		}
	}
}

// TestInherit gives a handler of runc's shim the node's cgroup driver and snapshotter, and no other.
func TestInherit(t *testing.T) {
	root := "version = 2\n" + runcV2 + "snapshotter = 'zfs'\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
	crun := Handler{Name: "crun", Type: runcType, Options: map[string]any{"BinaryName": "/usr/bin/crun"}}
	own := Handler{Name: "own", Type: runcType, Options: map[string]any{"SystemdCgroup": false}, Settings: map[string]any{"snapshotter": "native"}}
	for _, version := range []string{legacyVersion, "2.4.2"} {
		_, path := etc(t, map[string]string{"config.toml": root})
		at := Place{Root: path, Version: version}
		step(t, at, []Handler{crun, own, kata}, nil)
		got := map[string]Installed{}
		list, err := mustRead(t, at).Handlers()
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range list {
			got[h.Name] = h
		}
		if h := got["crun"]; h.Options["SystemdCgroup"] != true || h.Settings["snapshotter"] != "zfs" || h.Options["BinaryName"] != "/usr/bin/crun" {
			t.Errorf("%s: crun: %+v", version, h)
		}
		if h := got["own"]; h.Options["SystemdCgroup"] != false || h.Settings["snapshotter"] != "native" {
			t.Errorf("%s: own: %+v", version, h)
		}
		if h := got["kata-qemu"]; len(h.Options)+len(h.Settings) > 0 {
			t.Errorf("%s: kata: %+v", version, h)
		}
	}
}
