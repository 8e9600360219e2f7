package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// looksRight reads an archive: an image for an architecture that holds the given programs, static, and nothing else.
func looksRight(t *testing.T, archive, arch string, machine elf.Machine, programs ...string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	blobs := untar(t, f)
	type ref struct{ Digest string }
	var index struct{ Manifests []ref }
	var manifest struct {
		Config ref
		Layers []ref
	}
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
	}
	blob := func(r ref) []byte { return blobs["blobs/"+strings.Replace(r.Digest, ":", "/", 1)] }
	read := func(b []byte, v any) {
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatal(err)
		}
	}
	read(blobs["index.json"], &index)
	read(blob(index.Manifests[0]), &manifest)
	read(blob(manifest.Config), &config)
	if config.Architecture != arch || config.Config.User != "0:0" || !slices.Equal(config.Config.Entrypoint, []string{"/quiesce-installer"}) {
		t.Errorf("%s: %+v", archive, config)
	}
	files := map[string][]byte{}
	for _, l := range manifest.Layers {
		z, err := gzip.NewReader(bytes.NewReader(blob(l)))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(files, untar(t, z))
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, programs) {
		t.Errorf("%s holds %v, want %v", archive, got, programs)
	}
	for name, b := range files {
		e, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		dynamic := slices.ContainsFunc(e.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		if e.Machine != machine || dynamic {
			t.Errorf("%s: machine %v, dynamic %v", name, e.Machine, dynamic)
		}
		t.Logf("%s: %s, %d MB", name, e.Machine, len(b)>>20)
	}
}

// untar reads the regular files of an archive.
func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF { //nolint:errorlint // tar says so
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if files[h.Name], err = io.ReadAll(tr); err != nil {
				t.Fatal(err)
			}
		}
	}
}
