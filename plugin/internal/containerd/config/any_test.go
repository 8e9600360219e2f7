package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyConfig draws a file as a distribution may have it, or as none should.
func anyConfig(rt *rapid.T, name string) string {
	pick := func(label string, options ...string) string {
		return rapid.SampledFrom(options).Draw(rt, name+" "+label)
	}
	id := func() string {
		return pick("id", pluginV1, pluginV2, pluginV2, pluginV3, pluginV3, "io.containerd.cri.v1.images", pluginNRI)
	}
	plugins := func() string { return pick("plugins", "plugins", "plugins", "plugins", "Plugins", `"plugins"`) }
	cri := func() string { return pick("cri", "containerd", "containerd", "containerd", "Containerd") }
	runtimes := func() string { return pick("runtimes", "runtimes", "runtimes", "runtimes", "Runtimes") }
	runtime := func() string { return pick("runtime", builtin, "spin", "'a.b'", "Kata") }
	body := func() string {
		return pick("body", "", "runtime_type = 'io.containerd.runc.v2'\n", "runtime_type = 'x'\nsandbox_mode = 'podsandbox'\n[", "options = {SystemdCgroup = true}\n", "snapshotter = ''\n")
	}
	top := []string{
		pick("version", "", "version = 1\n", "version = 2\n", "version = 2\n", "version = 3\n", "version = 3\n", "version = 4\n", "Version = 2\n", "version = 0\n", "version = -1\n", "version = 5\n"),
		pick("imports", "", "", "imports = []\n", "imports = ['conf.d/*.toml']\n", "imports = ['*.toml']\n", "imports = ['a.toml', 'b.toml']\n", "imports = ['conf.d/a.toml']\n",
			"Imports = ['./conf.d/../a.toml',\n # c\n 'conf.d/q*']\n", "imports = ['gone.toml']\n", "imports = ['config.toml']\n"),
		pick("other", "", "", "root = '/x'\n", "disabled_plugins = ['io.containerd.grpc.v1.cri']\n", "[debug]\nlevel = 'info'\n"),
	}
	if rapid.Bool().Draw(rt, name+" other order") {
		top[0], top[1] = top[1], top[0]
	}
	out := strings.Join(top, "")
	for range rapid.IntRange(0, 3).Draw(rt, name+" tables") {
		switch rapid.IntRange(0, 7).Draw(rt, name+" form") {
		case 0:
			out += fmt.Sprintf("[%s.'%s'.%s.%s.%s]\n%s", plugins(), id(), cri(), runtimes(), runtime(), strings.TrimSuffix(body(), "["))
		case 1:
			out += fmt.Sprintf("[%s.\"%s\".%s]\n%s", plugins(), id(), cri(), pick("setting", "", "snapshotter = 'native'\n", "default_runtime_name = 'runc'\n", "default_runtime_name = 'spin'\n", "Default_Runtime_Name = 'x'\n"))
		case 2:
			out += fmt.Sprintf("[%s.'%s']\n%s", plugins(), id(), pick("key", "", "disable = true\n", "sandbox_image = 'x'\n", "containerd.runtimes.spin.runtime_type = 'y'\n", "containerd = {}\n", "containerd = 3\n"))
		case 3:
			out += fmt.Sprintf("[%s.'%s'.%s]\n%s = {%s = {runtime_type = 'z'}}\n", plugins(), id(), cri(), runtimes(), runtime())
		case 4:
			out += fmt.Sprintf("[%s.'%s'.%s.%s]\n", plugins(), id(), cri(), runtimes())
		case 5:
			out += fmt.Sprintf("[%s]\n'%s' = {%s = {%s = {}}}\n", plugins(), id(), cri(), runtimes())
		case 6:
			out += fmt.Sprintf("[%s.'%s'.%s.%s.%s.options]\nBinaryName = 'x'\nSystemdCgroup = true\n", plugins(), id(), cri(), runtimes(), runtime())
		case 7:
			out += fmt.Sprintf("[%s.'%s'.registry]\nconfig_path = '/x'\n", plugins(), id())
		}
	}
	if rapid.Bool().Draw(rt, name+" crlf") {
		out = strings.ReplaceAll(out, "\n", "\r\n")
	}
	return pick("mark", "", "", "", bom) + strings.TrimSuffix(out, pick("end", "", "", "\n"))
}

// TestChangeAnyConfig does what the fuzz targets do, with configs of several files that are less random.
func TestChangeAnyConfig(t *testing.T) {
	tmp := t.TempDir()
	dir := filepath.Join(tmp, "containerd")
	a := arena{dir, filepath.Join(dir, "config.toml")}
	rapid.Check(t, func(rt *rapid.T) {
		at := Place{Root: a.path, Version: rapid.SampledFrom(append([]string{legacyVersion, "1.6.36"}, releases...)).Draw(rt, "containerd"), NRI: rapid.Bool().Draw(rt, "nri")}
		files := map[string]string{}
		for _, name := range []string{"a.toml", "b.toml", "conf.d/a.toml", "conf.d/z.toml"} {
			if rapid.IntRange(0, 2).Draw(rt, name) == 0 {
				files[name] = anyConfig(rt, name)
			}
		}
		c := a.read(rt, at, anyConfig(rt, "root"), files)
		h := Handler{Name: rapid.SampledFrom([]string{"fuzz", "spin"}).Draw(rt, "handler"), Type: "io.containerd.fuzz.v1", Entry: "e", Options: map[string]any{"k": "v"}}
		switch {
		case c == nil:
		case c.release.legacy():
			checkLegacy(rt, c, at, h)
		default:
			checkChange(rt, c, at, h)
		}
	})
}
