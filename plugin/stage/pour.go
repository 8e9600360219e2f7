package stage

import (
	"hash"
	"io"
	"os"
	"syscall"
)

// chunk is how much is read, written and handed to the disk at a time.
const chunk = 1 << 20

// writeNow is SYNC_FILE_RANGE_WRITE of sync_file_range(2).
const writeNow = 2

// pour writes what r gives and has the disk begin while it goes on, so that the sync at the end finds little left.
func pour(f *os.File, r io.Reader) error {
	size := chunk
	if small, ok := r.(interface{ Len() int }); ok {
		size = min(size, small.Len()+1)
	}
	buf := make([]byte, size)
	var at int64
	for {
		n, err := io.ReadFull(r, buf)
		if _, werr := f.Write(buf[:n]); werr != nil {
			return werr
		}
		if n == chunk {
			_ = syscall.SyncFileRange(int(f.Fd()), at, chunk, writeNow) // only a hint: f.Sync is what counts
		}
		at += int64(n)
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// aside hashes in a goroutine of its own what is read through it; sum ends it.
type aside struct {
	r      io.Reader
	chunks chan []byte
	done   chan struct{}
	h      hash.Hash
}

func newAside(r io.Reader, h hash.Hash) *aside {
	a := &aside{r: r, h: h, chunks: make(chan []byte, 4), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for b := range a.chunks {
			_, _ = h.Write(b) // never fails
		}
	}()
	return a
}

func (a *aside) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.chunks <- append([]byte(nil), p[:n]...)
	}
	return n, err
}

// sum is called once, when nothing is read any more.
func (a *aside) sum() []byte {
	close(a.chunks)
	<-a.done
	return a.h.Sum(nil)
}
