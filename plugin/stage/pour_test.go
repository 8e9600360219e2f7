package stage

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"
)

// TestDigestIsOfWhatIsWritten: whatever a source gives, in whatever pieces.
func TestDigestIsOfWhatIsWritten(t *testing.T) {
	readers := map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "end with data": iotest.DataErrReader,
	}
	for name, reader := range readers {
		for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, waiting*chunk + 3, 5*begin + 7} {
			tree, err := OpenTree(t.TempDir())
			check(t, err)
			want := make([]byte, size)
			_, _ = rand.Read(want)
			got, err := tree.copyDigest(t.Context(), "x", reader(bytes.NewReader(want)), nil)
			check(t, err)
			b, err := os.ReadFile(tree.Path("x"))
			check(t, errors.Join(err, tree.Close()))
			if sum := sha256.Sum256(b); !bytes.Equal(b, want) || got.Size != int64(size) || got.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("%s, %d bytes: %d are there, and it says %+v", name, size, len(b), got)
			}
		}
	}
}

// TestASourceThatChanges while it is read is written, and hashed, as it was read.
func TestASourceThatChanges(t *testing.T) {
	dir := t.TempDir()
	tree, err := OpenTree(dir)
	check(t, err)
	defer tree.Close()
	check(t, os.WriteFile(tree.Path("source"), make([]byte, 8<<20), 0o600))
	src, err := os.OpenFile(tree.Path("source"), os.O_RDWR, 0)
	check(t, err)
	defer src.Close()
	var junk [4096]byte
	_, _ = rand.Read(junk[:])
	got, err := tree.copyDigest(t.Context(), "x", src, func(n int64) {
		for at := range int64(8<<20) / (64 << 10) { // before and behind where it is read
			_, err := src.WriteAt(junk[:], at*(64<<10)+n/chunk*64)
			check(t, err)
		}
	})
	check(t, err)
	b, err := os.ReadFile(tree.Path("x"))
	check(t, err)
	if sum := sha256.Sum256(b); got.SHA256 != hex.EncodeToString(sum[:]) || bytes.Equal(b, make([]byte, len(b))) {
		t.Errorf("it says %+v of what is %x", got, sum)
	}
}

// TestASourceThatEnds before its end, or a copy that is called off, leaves nothing.
func TestASourceThatEnds(t *testing.T) {
	tree, err := OpenTree(t.TempDir())
	check(t, err)
	defer tree.Close()
	for _, want := range []error{io.ErrUnexpectedEOF, context.Canceled} {
		ctx, cancel := context.WithCancelCause(t.Context())
		src := io.MultiReader(bytes.NewReader(make([]byte, 3*chunk+1)), iotest.ErrReader(want))
		if errors.Is(want, context.Canceled) {
			src = endless(func() { cancel(nil) })
		}
		_, err := tree.copyDigest(ctx, "x", src, nil)
		cancel(nil)
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		if des, err := os.ReadDir(tree.Path(".")); err != nil || len(des) > 0 {
			t.Errorf("left: %v, %v", des, err)
		}
	}
}

// endless is a source that calls itself off.
type endless func()

func (e endless) Read(p []byte) (int, error) {
	e()
	return len(p), nil
}
