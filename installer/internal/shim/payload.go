// Package shim finds the files that an installer brings: a shim binary, a directory with one and what it needs, or a
// tar.gz with shims, from this machine or over https.
//
// What comes from elsewhere or is packed is never trusted: a download needs a digest and is not looked into before it has
// that; of an archive only regular files named like shims are taken, and one with anything that could reach further is
// refused. Both are kept in files without a name, which are gone when this process is, whatever ends it.
package shim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"quiesce/plugin/stage"
)

// Request says where a shim is, and what it must be.
type Request struct {
	From    string   // a file, a directory, a tar.gz, or an https URL of a file or a tar.gz
	File    string   // the file name that the shim must have, or empty
	Handler string   // tells which shim is meant if there are several, or is empty
	SHA256  []string // HEX of what From is, NAME=HEX of a file in it; a URL needs the first
	CAFile  string   // PEM of further authorities that the URL's server may be certified by, or empty
	Scratch string   // the directory on whose disk a download and what is unpacked are kept

	Progress func(total int64) (at func(int64), done func()) // of a download, in bytes; total is -1 if unknown
}

// Payload is the files of an entry. Those that are not packed have no digest before [Payload.Digest].
type Payload struct {
	Shim  string // which of them is the shim
	Files []stage.File

	whole string // the digest of the archive or the download
	open  []func() (file, error)
	kept  []*kept
}

type file interface {
	io.ReadCloser
	io.ReaderAt
}

// Load reads what a request names and checks it: digests, and that this machine can run it. The caller closes the payload.
func Load(ctx context.Context, r Request) (*Payload, error) {
	return loader{r, limits{maxPacked, maxUnpacked, maxEntries, stall, total}}.load(ctx)
}

func (l loader) load(ctx context.Context) (*Payload, error) {
	want, err := parseDigests(l.SHA256)
	if err != nil {
		return nil, err
	}
	p, err := l.find(ctx, want)
	if err != nil {
		return nil, err
	}
	if len(want) > 0 {
		err = p.Digest(ctx)
	}
	if err == nil {
		err = p.check(want)
	}
	if err == nil {
		err = p.runs()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Payload) add(f stage.File, open func() (file, error)) {
	p.Files, p.open = append(p.Files, f), append(p.open, open)
}

func (p *Payload) addKept(f stage.File, k *kept) {
	f.Size, f.SHA256 = k.size, k.sum
	p.add(f, k.reader)
	p.kept = append(p.kept, k)
}

// Digest fills in the digests that are not known.
func (p *Payload) Digest(ctx context.Context) error {
	for i := range p.Files {
		if p.Files[i].SHA256 != "" {
			continue
		}
		f, err := p.open[i]()
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, reading{ctx, f, nil})
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("read %s: %w", p.Files[i].Name, err)
		}
		p.Files[i].Size, p.Files[i].SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	}
	return nil
}

// runs checks that this machine can execute what is executable.
func (p *Payload) runs() error {
	for i, f := range p.Files {
		if f.Mode != 0o755 {
			continue
		}
		src, err := p.open[i]()
		if err != nil {
			return err
		}
		if err = errors.Join(stage.CheckProgram(src), src.Close()); err != nil {
			return fmt.Errorf("check %s: it %w; nothing was staged", f.Name, err)
		}
	}
	return nil
}

// Open opens file i; it is a stage.Source.
func (p *Payload) Open(i int) (io.ReadCloser, error) { return p.open[i]() }

// Close gives back what is kept of a download or an archive.
func (p *Payload) Close() error {
	var errs error
	for _, k := range slices.Backward(p.kept) {
		errs = errors.Join(errs, k.f.Close())
	}
	return errs
}

// Size is how many bytes the files have.
func (p *Payload) Size() (n int64) {
	for _, f := range p.Files {
		n += f.Size
	}
	return n
}
