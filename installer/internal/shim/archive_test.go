package shim_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quiesce/installer/internal/refusal"
	"quiesce/installer/internal/shim"
)

// item is an entry of an archive; without a type it is a regular file.
type item struct {
	name string
	kind byte
	body []byte
	size int64 // what the header says, if not what there is
}

func packed(t *testing.T, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, i := range items {
		h := &tar.Header{Name: i.name, Typeflag: i.kind, Mode: 0o755, Size: max(i.size, int64(len(i.body))), Format: tar.FormatPAX}
		if i.kind == tar.TypeSymlink || i.kind == tar.TypeLink {
			h.Linkname = "/etc/passwd"
		}
		if i.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: i.kind, PAXRecords: map[string]string{"comment": "x"}}
		}
		check(t, w.WriteHeader(h))
		_, err := w.Write(i.body)
		check(t, err)
	}
	_ = w.Flush() // a file that is shorter than its header says
	_ = w.Close()
	check(t, z.Close())
	return b.Bytes()
}

const a, b = "containerd-shim-a-v1", "containerd-shim-b-v2"

func TestArchive(t *testing.T) {
	good := item{name: a, body: program("a")}
	tests := map[string]struct {
		items   []item
		file    string
		carries []string
		want    string // of the error
	}{
		"a shim":               {[]item{good}, "", []string{a}, ""},
		"deep, with others":    {[]item{{name: "./", kind: tar.TypeDir}, {name: "./LICENSE", body: []byte("x")}, {name: "./usr/bin/" + a, body: program("a")}}, "", []string{a}, ""},
		"a comment":            {[]item{{kind: tar.TypeXGlobalHeader}, good}, "", []string{a}, ""},
		"two, and which":       {[]item{good, {name: b, body: program("b")}}, b, []string{a, b}, ""},
		"two":                  {[]item{good, {name: b, body: program("b")}}, "", nil, "which one is the shim"},
		"twice":                {[]item{good, {name: "x/" + a, body: program("b")}}, "", nil, "two files named"},
		"none":                 {[]item{{name: "x", body: []byte("x")}}, "", nil, "has no file named"},
		"nothing":              {nil, "", nil, "has no file named"},
		"of another type":      {[]item{good}, b, nil, "asks for"},
		"up":                   {[]item{good, {name: "../" + b, body: program("b")}}, "", nil, "leads out of it"},
		"up from below":        {[]item{good, {name: "x/../../" + b, body: program("b")}}, "", nil, "leads out of it"},
		"from the root":        {[]item{good, {name: "/etc/" + b, body: program("b")}}, "", nil, "leads out of it"},
		"a directory up":       {[]item{good, {name: "..", kind: tar.TypeDir}}, "", nil, "leads out of it"},
		"a symbolic link":      {[]item{good, {name: "x", kind: tar.TypeSymlink}}, "", nil, "is a link"},
		"a shim that is one":   {[]item{{name: a, kind: tar.TypeSymlink}}, "", nil, "is a link"},
		"a hard link":          {[]item{good, {name: "x", kind: tar.TypeLink}}, "", nil, "is a link"},
		"a device":             {[]item{good, {name: "x", kind: tar.TypeChar}}, "", nil, "is a device"},
		"a FIFO":               {[]item{good, {name: "x", kind: tar.TypeFifo}}, "", nil, "is a FIFO"},
		"larger than allowed":  {[]item{good, {name: "x", size: 2 << 30}}, "", nil, "MiB or 10000 entries allowed"},
		"more than allowed":    {append(slices.Repeat([]item{{name: "x"}}, 10_000), good), "", nil, "10000 entries allowed"},
		"shorter than it says": {[]item{{name: a, body: program("a"), size: 1 << 20}}, "", nil, "unexpected EOF"},
		"no program":           {[]item{{name: a, body: []byte("#!/bin/sh\n")}}, "", nil, "is not an ELF program"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			check(t, os.WriteFile(filepath.Join(dir, "x.tar.gz"), packed(t, tt.items...), 0o644))
			p, err := shim.Load(t.Context(), shim.Request{From: filepath.Join(dir, "x.tar.gz"), File: tt.file, Scratch: dir})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
			} else {
				check(t, err)
				var names []string
				for i, f := range p.Files {
					names = append(names, f.Name)
					wantFile(t, p, i)
				}
				if !slices.Equal(names, tt.carries) {
					t.Errorf("carries %v", names)
				}
				check(t, p.Close())
			}
			wantAlone(t, dir)
		})
	}
}

func wantFile(t *testing.T, p *shim.Payload, i int) {
	t.Helper()
	for range 2 { // it can be read again
		src, err := p.Open(i)
		check(t, err)
		var got bytes.Buffer
		_, err = got.ReadFrom(src)
		check(t, errors.Join(err, src.Close()))
		if f := p.Files[i]; hexSum(got.Bytes()) != f.SHA256 || int64(got.Len()) != f.Size || f.Mode != 0o755 {
			t.Errorf("%+v has %d bytes", f, got.Len())
		}
	}
}

// wantAlone checks that nothing was left beside the archive.
func wantAlone(t *testing.T, dir string) {
	t.Helper()
	if des, err := os.ReadDir(dir); err != nil || len(des) != 1 {
		t.Errorf("left: %v, %v", des, err)
	}
}

func TestArchiveDigestsAndDamage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.tgz")
	whole := packed(t, item{name: a, body: program("a")})
	zero := strings.Repeat("0", 64)
	for name, tt := range map[string]struct {
		bytes []byte
		sums  []string
		want  string
	}{
		"right":               {whole, []string{hexSum(whole), a + "=" + hexSum(program("a"))}, ""},
		"wrong":               {whole, []string{zero}, "nothing was staged"},
		"of the shim itself":  {whole, []string{hexSum(program("a"))}, "nothing was staged"},
		"wrong, of the shim":  {whole, []string{hexSum(whole), a + "=" + zero}, "nothing was staged"},
		"cut":                 {whole[:len(whole)-12], nil, "unexpected EOF"},
		"the checksum is not": {append(bytes.Clone(whole[:len(whole)-8]), make([]byte, 8)...), nil, "invalid checksum"},
	} {
		check(t, os.WriteFile(path, tt.bytes, 0o644))
		p, err := shim.Load(t.Context(), shim.Request{From: path, SHA256: tt.sums, Scratch: dir})
		switch {
		case tt.want == "" && err == nil:
			err = p.Close()
			fallthrough
		case tt.want == "":
			check(t, err)
		case err == nil || !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
		wantAlone(t, dir)
	}
}

func TestArchiveInterrupted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.tgz")
	check(t, os.WriteFile(path, packed(t, item{name: a, body: program("a")}), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shim.Load(ctx, shim.Request{From: path, Scratch: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := shim.Load(t.Context(), shim.Request{From: path, Scratch: filepath.Join(dir, "none")}); err == nil {
		t.Error("no scratch: no error")
	}
	if r, ok := errors.AsType[*refusal.Error](func() error {
		_, err := shim.Load(t.Context(), shim.Request{From: dir + "/none"})
		return err
	}()); ok {
		t.Errorf("what is not there is a failure, not %v", r)
	}
	wantAlone(t, dir)
}
