package shim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"quiesce/installer/internal/refusal"
	"quiesce/plugin/stage"
)

// Limits of what is downloaded or unpacked.
const (
	maxPacked   = 512 << 20     // bytes of an archive or a download
	maxUnpacked = stage.MaxFile // bytes of everything in an archive
	maxEntries  = 10_000
	stall       = time.Minute // without a byte
	total       = 20 * time.Minute
)

type limits struct {
	packed, unpacked int64
	entries          int
	stall, total     time.Duration
}

// loader is a request with its limits.
type loader struct {
	Request
	limits
}

// kept is a file without a name.
type kept struct {
	f    *os.File
	size int64
	sum  string // sha256, hex
}

func (k *kept) reader() (file, error) { return section{io.NewSectionReader(k.f, 0, k.size)}, nil }

type section struct{ *io.SectionReader }

func (section) Close() error { return nil }

// keep copies src, of which more than limit bytes are refused.
func (l loader) keep(ctx context.Context, src io.Reader, limit int64) (*kept, error) {
	f, err := nameless(l.Scratch)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(reading{ctx, src, nil}, limit+1))
	if err == nil && n > limit {
		err = tooLarge(limit)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &kept{f, n, hex.EncodeToString(sum.Sum(nil))}, nil
}

func tooLarge(limit int64) error {
	return refusal.New("is larger than the %d MiB allowed; nothing was staged", limit>>20)
}

// nameless makes a file that no directory has.
func nameless(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) { // not on every file system
		return unnamed(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make a file in %s: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), dir+"/(no name)"), nil
}

// unnamed makes a file and takes its name away.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return nil, fmt.Errorf("make a file: %w", err)
	}
	if err := unix.Unlink(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("unlink %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// reading reads until ctx ends, and tells how many bytes each read gave.
type reading struct {
	ctx context.Context //nolint:containedctx // lives as long as one copy
	r   io.Reader
	got func(int)
}

func (r reading) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	if r.got != nil {
		r.got(n)
	}
	if err != nil && context.Cause(r.ctx) != nil {
		err = context.Cause(r.ctx) // it is why
	}
	return n, err
}
