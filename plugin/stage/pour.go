package stage

import (
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// What is read and written at a time, how much of it may wait for its hash, and how much the disk is handed at a time.
const (
	chunk   = 256 << 10
	waiting = 8
	begin   = 2 << 20
)

// pour writes what r gives.
func pour(f *os.File, r io.Reader) error {
	_, err := io.Copy(&early{f: f}, r)
	return err
}

// early is a file that the disk begins to write while more comes, so that the sync at the end finds little left.
type early struct {
	f         *os.File
	at, begun int64
}

func (e *early) Write(p []byte) (int, error) {
	n, err := e.f.Write(p)
	if e.at += int64(n); e.at-e.begun >= begin {
		// Linux begins to write what is dirty (mm/fadvise.c), through an overlay too, as sync_file_range does not. Only a hint.
		_ = unix.Fadvise(int(e.f.Fd()), e.begun, e.at-e.begun, unix.FADV_DONTNEED)
		e.begun = e.at
	}
	return n, err
}

// hashed hashes, in a goroutine of its own, the very bytes that it gives to be written.
type hashed struct {
	io.Reader
	sum hash.Hash
}

// WriteTo is part of io.WriterTo; when it returns, nothing is hashed any more.
func (h hashed) WriteTo(w io.Writer) (n int64, err error) {
	free, full, done := make(chan []byte, waiting), make(chan []byte, waiting), make(chan struct{})
	go func() {
		defer close(done)
		for b := range full {
			_, _ = h.sum.Write(b) // never fails
			free <- b[:chunk]
		}
	}()
	defer func() {
		close(full)
		<-done
	}()
	for range waiting {
		free <- make([]byte, chunk)
	}
	for {
		b := <-free
		got, err := h.Read(b)
		full <- b[:got]
		wrote, werr := w.Write(b[:got])
		n += int64(wrote)
		switch {
		case werr != nil:
			return n, werr
		case err == io.EOF: //nolint:errorlint // readers give it as it is
			return n, nil
		case err != nil:
			return n, err
		}
	}
}
