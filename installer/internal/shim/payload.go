// Package shim finds the files that an installer brings: a shim binary, or a directory with one and what it needs.
package shim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quiesce/installer/internal/refusal"
	"quiesce/plugin/stage"
)

// Payload is the files of an entry, with size and digest.
type Payload struct {
	Shim  string // which of them is the shim
	Files []stage.File
	paths []string
}

// Load reads what is at path, a file or a directory, and computes the digests. want is the file name that the
// shim must have, or empty; handler tells which shim is meant if a directory has several, or is empty.
func Load(ctx context.Context, path, want, handler string) (*Payload, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read shim: %w; name the shim's file or directory with --shim", err)
	}
	var p *Payload
	if fi.IsDir() {
		p, err = fromDir(path, want, handler)
	} else {
		p, err = fromFile(path, want, fi)
	}
	if err != nil {
		return nil, err
	}
	return p, p.digest(ctx)
}

func fromFile(path, want string, fi os.FileInfo) (*Payload, error) {
	if !fi.Mode().IsRegular() {
		return nil, refusal.New("shim %s: is not a regular file", path)
	}
	name := filepath.Base(path)
	switch {
	case want == "" && !fileForm.MatchString(name):
		return nil, refusal.New("shim %s: is not named containerd-shim-NAME-vN; give its runtime type with --runtime-type io.containerd.NAME.vN", path)
	case want != "" && strings.HasPrefix(name, prefix) && name != want:
		return nil, refusal.New("shim %s: the runtime type asks for a file named %s", path, want)
	}
	name = cmp.Or(want, name)
	return &Payload{Shim: name, Files: []stage.File{{Name: name, Mode: 0o755}}, paths: []string{path}}, nil
}

func fromDir(dir, want, handler string) (*Payload, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read shim directory: %w", err)
	}
	p := &Payload{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		fi, err := os.Stat(path) // a link to a regular file counts, as in a mounted ConfigMap
		if err != nil {
			return nil, fmt.Errorf("read shim directory: %w", err)
		}
		if fi.Mode().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			p.Files = append(p.Files, stage.File{Name: e.Name(), Mode: mode(fi)})
			p.paths = append(p.paths, path)
		}
	}
	p.Shim, err = pick(dir, p.Files, want, handler)
	return p, err
}

func mode(fi os.FileInfo) os.FileMode {
	if strings.HasPrefix(fi.Name(), prefix) || fi.Mode()&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// pick names the shim among files.
func pick(dir string, files []stage.File, want, handler string) (string, error) {
	var found []string
	for _, f := range files {
		if fileForm.MatchString(f.Name) {
			found = append(found, f.Name)
		}
	}
	switch {
	case want != "" && slices.Contains(found, want):
		return want, nil
	case want != "":
		return "", refusal.New("shim directory %s: has no file named %s, which the runtime type asks for", dir, want)
	case slices.Contains(found, prefix+handler):
		return prefix + handler, nil
	case len(found) == 0:
		return "", refusal.New("shim directory %s: has no file named containerd-shim-NAME-vN", dir)
	case len(found) > 1:
		return "", refusal.New("shim directory %s: which one is the shim? %s; name the file with --shim", dir, strings.Join(found, ", "))
	}
	return found[0], nil
}

func (p *Payload) digest(ctx context.Context) error {
	for i := range p.Files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		f, err := p.Open(i)
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("read %s: %w", p.paths[i], err)
		}
		p.Files[i].Size, p.Files[i].SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	}
	return nil
}

// Open opens file i; it is a stage.Source.
func (p *Payload) Open(i int) (io.ReadCloser, error) {
	f, err := os.Open(p.paths[i])
	if err != nil {
		return nil, fmt.Errorf("read shim: %w", err)
	}
	return f, nil
}

// Size is how many bytes the files have.
func (p *Payload) Size() (n int64) {
	for _, f := range p.Files {
		n += f.Size
	}
	return n
}
