package shim_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quiesce/installer/internal/shim"
)

func TestLoad(t *testing.T) {
	const a, b = "containerd-shim-a-v1", "containerd-shim-b-v2"
	tests := map[string]struct {
		files               []string
		path, want, handler string
		shim                string // empty: an error
		carries             []string
	}{
		"a file":                        {[]string{a}, a, "", "", a, []string{a}},
		"a file under another name":     {[]string{"x"}, "x", a, "", a, []string{a}},
		"a file of another type":        {[]string{b}, b, a, "", "", nil},
		"a file without a type":         {[]string{"x"}, "x", "", "", "", nil},
		"a directory":                   {[]string{a, "lib.so", ".hidden", "sub/deep"}, ".", "", "", a, []string{a, "lib.so"}},
		"a directory with two":          {[]string{a, b}, ".", "", "", "", nil},
		"two, and the type says":        {[]string{a, b}, ".", b, "", b, []string{a, b}},
		"two, and the handler says":     {[]string{a, b}, ".", "", "b-v2", b, []string{a, b}},
		"two, and the handler is other": {[]string{a, b}, ".", "", "c", "", nil},
		"one, and the handler is other": {[]string{a}, ".", "", "c", a, []string{a}},
		"a directory of another type":   {[]string{a}, ".", b, "", "", nil},
		"a directory without":           {[]string{"x"}, ".", "", "", "", nil},
		"nothing":                       {nil, "none", "", "", "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range tt.files {
				check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755))
				check(t, os.WriteFile(filepath.Join(dir, f), []byte(f), 0o644))
			}
			p, err := shim.Load(t.Context(), filepath.Join(dir, tt.path), tt.want, tt.handler)
			if (err != nil) != (tt.shim == "") {
				t.Fatalf("error: %v", err)
			}
			if err != nil {
				return
			}
			var names []string
			for _, f := range p.Files {
				names = append(names, f.Name)
				if want := map[bool]os.FileMode{true: 0o755, false: 0o644}[strings.HasPrefix(f.Name, "containerd-shim-")]; f.Mode != want || len(f.SHA256) != 64 {
					t.Errorf("%s: mode %o, digest %q", f.Name, f.Mode, f.SHA256)
				}
			}
			if p.Shim != tt.shim || !slices.Equal(names, tt.carries) {
				t.Errorf("shim %s of %v, want %s of %v", p.Shim, names, tt.shim, tt.carries)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	name := "containerd-shim-a-v1"
	check(t, os.WriteFile(filepath.Join(dir, name), []byte("abc"), 0o644))
	p, err := shim.Load(t.Context(), dir, "", "")
	check(t, err)
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	check(t, p.Check([]string{abc, strings.ToUpper(abc), name + "=" + abc}))
	for _, bad := range []string{strings.Repeat("0", 64), "xyz", "other=" + abc, name + "=" + strings.Repeat("0", 64)} {
		if p.Check([]string{bad}) == nil {
			t.Errorf("Check(%s): no error", bad)
		}
	}
}

func TestNames(t *testing.T) {
	file, err := shim.FileOf("io.containerd.kata-qemu.v2")
	check(t, err)
	if file != "containerd-shim-kata-qemu-v2" || shim.HandlerOf(file) != "kata-qemu-v2" {
		t.Errorf("file %s, handler %s", file, shim.HandlerOf(file))
	}
	for _, bad := range []string{"", "runc", "io.containerd.runc", "io.containerd.runc.2", "io.containerd.../x.v2"} {
		if _, err := shim.FileOf(bad); err == nil {
			t.Errorf("FileOf(%q): no error", bad)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
