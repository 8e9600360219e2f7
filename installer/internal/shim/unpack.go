package shim

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"quiesce/installer/internal/refusal"
	"quiesce/plugin/stage"
)

// unpack takes the shims out of a tar.gz.
func (l loader) unpack(ctx context.Context, k *kept) (*Payload, error) {
	p := &Payload{whole: k.sum}
	src, err := k.reader()
	if err == nil {
		err = l.untar(ctx, src, p)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, l.pick("archive", p)
}

func (l loader) untar(ctx context.Context, src io.Reader, p *Payload) error {
	z, err := gzip.NewReader(reading{ctx, src, nil})
	if err != nil {
		return fmt.Errorf("unpack %s: %w", l.From, err)
	}
	left := l.unpacked + int64(l.entries)*1024 // the tar's own headers
	plain := io.LimitReader(z, left+1)
	t := tar.NewReader(plain)
	var size int64
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w; is it a whole tar.gz?", l.From, err)
		}
		if size += h.Size; h.Size < 0 || size > l.unpacked || n >= l.entries {
			return refusal.New("shim archive %s: unpacks to more than the %d MiB or %d entries allowed", l.From, l.unpacked>>20, l.entries)
		}
		if err := l.entry(ctx, h, t, p); err != nil {
			return err
		}
	}
	if n, err := io.Copy(io.Discard, plain); err != nil { // to the checksum at the end
		return fmt.Errorf("unpack %s: %w; is it a whole tar.gz?", l.From, err)
	} else if n > 1<<20 {
		return refusal.New("shim archive %s: goes on after its end", l.From)
	}
	return nil
}

// entry keeps a shim, passes over other files, and refuses what can reach further.
func (l loader) entry(ctx context.Context, h *tar.Header, src io.Reader, p *Payload) error {
	name := path.Base(h.Name)
	switch {
	case h.Typeflag == tar.TypeXGlobalHeader:
		return nil
	case path.IsAbs(h.Name) || slices.Contains(strings.Split(h.Name, "/"), ".."):
		return refusal.New("shim archive %s: %q leads out of it", l.From, h.Name)
	case h.Typeflag == tar.TypeDir:
		return nil
	case h.Typeflag != tar.TypeReg:
		return refusal.New("shim archive %s: %q is %s; only regular files are taken", l.From, h.Name, kind(h.Typeflag))
	case !fileForm.MatchString(name):
		return nil
	case slices.ContainsFunc(p.Files, func(f stage.File) bool { return f.Name == name }):
		return refusal.New("shim archive %s: has two files named %s", l.From, name)
	case len(p.Files) == stage.MaxFiles:
		return refusal.New("shim archive %s: has more than %d shims", l.From, stage.MaxFiles)
	}
	k, err := l.keep(ctx, src, l.unpacked)
	if err != nil {
		return fmt.Errorf("unpack %s: %s: %w", l.From, name, err)
	}
	p.addKept(stage.File{Name: name, Mode: 0o755}, k)
	return nil
}

func kind(flag byte) string {
	switch flag {
	case tar.TypeSymlink, tar.TypeLink:
		return "a link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a FIFO"
	}
	return fmt.Sprintf("of kind %q", flag)
}
