package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMerged adds a handler where somebody else makes the root and reads drop-ins: only the drop-in is ours, also for a
// containerd that takes the last table of a plugin alone, and before the root is there at all.
func TestMerged(t *testing.T) {
	imports := "imports = ['DIR/containerd.d/*.toml']\n"
	tests := map[string]struct {
		version, domain string
		files           map[string]string
	}{
		"k0s 1.35": {"1.7.34", pluginV2, map[string]string{
			"config.toml": "# k0s_managed=true\nversion = 2\nimports = ['DIR/run/cri.toml']\n", "run/cri.toml": "version = 2\n" + runcV2, "containerd.d/own.toml": "# theirs\n",
		}},
		"k0s 1.36":    {"2.3.3", pluginV3, map[string]string{"config.toml": "# k0s_managed=true\nversion = 3\n" + imports, "containerd.d/own.toml": runcV3}},
		"merged, 2.x": {"2.2.1", pluginV3, map[string]string{"config.toml": "version = 3\nimports = ['DIR/run/cri.toml']\n", "run/cri.toml": "version = 3\n" + runcV3}},
		"no root":     {"", pluginV3, map[string]string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir, path := etc(t, nil)
			for name, text := range tt.files {
				mkdir(t, filepath.Dir(filepath.Join(dir, name)))
				tt.files[name] = strings.ReplaceAll(text, "DIR", dir)
				write(t, filepath.Join(dir, name), tt.files[name])
			}
			at := Place{Root: path, Version: tt.version, Dropins: dir + "/containerd.d", Merged: dir + "/run/cri.toml", NRI: true}
			step(t, at, []Handler{kata}, nil)
			got := snapshot(t, dir)
			if text := got["containerd.d/quiesce-kata-qemu.toml"]; !strings.Contains(text, tt.domain) || len(got) != len(tt.files)+1 {
				t.Fatalf("files: %q", got)
			}
			if merged, ok := tt.files["run/cri.toml"]; ok { // what they make of it
				table := "[plugins.'" + tt.domain + "'.containerd.runtimes.kata-qemu]\nruntime_type = '" + kata.Type + "'\n"
				write(t, filepath.Join(dir, "run/cri.toml"), merged+table)
				step(t, at, []Handler{kata, spin}, nil)
				step(t, at, []Handler{kata}, []string{"spin"})
			}
			step(t, at, nil, []string{"kata-qemu"})
			if merged, ok := tt.files["run/cri.toml"]; ok {
				write(t, filepath.Join(dir, "run/cri.toml"), merged)
			}
			same(t, "files", tt.files, snapshot(t, dir))
		})
	}
}

// TestMergedIsNotEdited: a handler that somebody has in a drop-in of theirs is adopted there, and never in what is made of it.
func TestMergedIsNotEdited(t *testing.T) {
	own := "[plugins.'" + pluginV2 + "'.containerd.runtimes.spin]\nruntime_type = 'a'\n"
	dir, path := etc(t, map[string]string{"run/cri.toml": "version = 2\n" + runcV2 + own, "containerd.d/own.toml": own})
	root := "version = 2\nimports = ['" + dir + "/run/cri.toml']\n"
	write(t, path, root)
	adopting := spin
	adopting.Adopt = true
	c := mustRead(t, Place{Root: path, Version: "1.7.34", Dropins: dir + "/containerd.d", Merged: dir + "/run/cri.toml"})
	changes, err := c.Change([]Handler{adopting})
	if err != nil {
		t.Fatal(err)
	}
	for _, ch := range changes {
		if filepath.Base(filepath.Dir(ch.Path)) != "containerd.d" {
			t.Errorf("%s would be changed", ch.Path)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != root || len(changes) != 2 {
		t.Errorf("%d changes, root %q", len(changes), text)
	}
}
