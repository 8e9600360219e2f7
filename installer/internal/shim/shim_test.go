package shim_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
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
				check(t, os.WriteFile(filepath.Join(dir, f), program(f), 0o644))
			}
			p, err := shim.Load(t.Context(), shim.Request{From: filepath.Join(dir, tt.path), File: tt.want, Handler: tt.handler, Scratch: dir})
			if (err != nil) != (tt.shim == "") {
				t.Fatalf("error: %v", err)
			}
			if err != nil {
				return
			}
			check(t, p.Digest(t.Context()))
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

func TestDigests(t *testing.T) {
	dir := t.TempDir()
	name := "containerd-shim-a-v1"
	check(t, os.WriteFile(filepath.Join(dir, name), program("a"), 0o644))
	good, zero := hexSum(program("a")), strings.Repeat("0", 64)
	load := func(from string, sums ...string) error {
		p, err := shim.Load(t.Context(), shim.Request{From: filepath.Join(dir, from), SHA256: sums})
		if err == nil {
			err = p.Close()
		}
		return err
	}
	check(t, load(".", good, strings.ToUpper(good), name+"="+good))
	check(t, load(name, good))
	for _, bad := range []string{zero, "xyz", "other=" + good, name + "=" + zero} {
		if load(".", good, bad) == nil || load(name, bad) == nil {
			t.Errorf("digest %s: no error", bad)
		}
	}
	check(t, os.WriteFile(filepath.Join(dir, "lib.so"), []byte("x"), 0o644))
	if err := load(".", good); err == nil || !strings.Contains(err.Error(), "of which file") {
		t.Errorf("a directory with two files: %v", err)
	}
	check(t, load(".", name+"="+good))
}

func TestWhatThisMachineCannotRun(t *testing.T) {
	other := program("a")
	other[18], other[19] = 0, 0 // e_machine
	for want, b := range map[string][]byte{"is not an ELF program": []byte("#!/bin/sh\n"), "is built for": other, "it is": nil} {
		path := filepath.Join(t.TempDir(), "containerd-shim-a-v1")
		check(t, os.WriteFile(path, b, 0o755))
		if _, err := shim.Load(t.Context(), shim.Request{From: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
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

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// program is the head of a program of this machine, without sections and segments, and what is appended to it.
func program(tail string) []byte {
	var b bytes.Buffer
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
		Machine: uint16(map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]),
	}
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		panic(err)
	}
	return append(b.Bytes(), tail...)
}
