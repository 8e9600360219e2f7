package shim

import (
	"cmp"
	"context"
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

// find gets what the request names. What is kept is checked before it is looked into.
func (l loader) find(ctx context.Context, want digests) (*Payload, error) {
	if strings.Contains(l.From, "://") {
		return l.download(ctx, want)
	}
	fi, err := os.Stat(l.From)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read shim: %w; name the shim's file, directory or tar.gz with --shim", err)
	case fi.IsDir():
		return l.fromDir()
	case !fi.Mode().IsRegular():
		return nil, refusal.New("shim %s: is not a regular file", l.From)
	}
	f, err := openFile(l.From)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !packed(f) {
		return l.fromFile(stage.File{Name: filepath.Base(l.From), Size: fi.Size()}, func() (file, error) { return openFile(l.From) })
	}
	k, err := l.keep(ctx, f, l.packed)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.From, err)
	}
	defer k.f.Close()
	if err := want.whole(l.From, k.sum); err != nil {
		return nil, err
	}
	return l.unpack(ctx, k)
}

func openFile(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read shim: %w", err)
	}
	return f, nil
}

// packed tells a gzip file by its first bytes.
func packed(f io.ReaderAt) bool {
	var b [2]byte
	n, _ := f.ReadAt(b[:], 0) // what is shorter is no gzip file
	return n == 2 && b == [2]byte{0x1f, 0x8b}
}

func (l loader) fromFile(f stage.File, open func() (file, error)) (*Payload, error) {
	name := f.Name
	switch {
	case l.File == "" && !fileForm.MatchString(name):
		return nil, refusal.New("shim %s: is not named containerd-shim-NAME-vN; give its runtime type with --runtime-type io.containerd.NAME.vN", l.From)
	case l.File != "" && strings.HasPrefix(name, prefix) && name != l.File:
		return nil, refusal.New("shim %s: the runtime type asks for a file named %s", l.From, l.File)
	}
	p := &Payload{Shim: cmp.Or(l.File, name)}
	f.Name, f.Mode = p.Shim, 0o755
	p.add(f, open)
	return p, nil
}

func (l loader) fromDir() (*Payload, error) {
	entries, err := os.ReadDir(l.From)
	if err != nil {
		return nil, fmt.Errorf("read shim directory: %w", err)
	}
	p := &Payload{}
	for _, e := range entries {
		path := filepath.Join(l.From, e.Name())
		fi, err := os.Stat(path) // a link to a regular file counts, as in a mounted ConfigMap
		if err != nil {
			return nil, fmt.Errorf("read shim directory: %w", err)
		}
		if fi.Mode().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			p.add(stage.File{Name: e.Name(), Mode: mode(fi), Size: fi.Size()}, func() (file, error) { return openFile(path) })
		}
	}
	return p, l.pick("directory", p)
}

func mode(fi os.FileInfo) os.FileMode {
	if strings.HasPrefix(fi.Name(), prefix) || fi.Mode()&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// pick names the shim among the files of a payload, and gives it back if there is none.
func (l loader) pick(kind string, p *Payload) error {
	var found []string
	for _, f := range p.Files {
		if fileForm.MatchString(f.Name) {
			found = append(found, f.Name)
		}
	}
	var err error
	switch {
	case l.File != "" && slices.Contains(found, l.File):
		p.Shim = l.File
	case l.File != "":
		err = refusal.New("shim %s %s: has no file named %s, which the runtime type asks for", kind, l.From, l.File)
	case slices.Contains(found, prefix+l.Handler):
		p.Shim = prefix + l.Handler
	case len(found) == 0:
		err = refusal.New("shim %s %s: has no file named containerd-shim-NAME-vN", kind, l.From)
	case len(found) > 1:
		err = refusal.New("shim %s %s: which one is the shim? %s; name it with --runtime-type or --handler", kind, l.From, strings.Join(found, ", "))
	default:
		p.Shim = found[0]
	}
	if err != nil {
		return errors.Join(err, p.Close())
	}
	return nil
}
