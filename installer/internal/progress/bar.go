// Package progress draws a bar on a terminal while files are copied.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const width = 30

// Bar is the progress of several files copied one after the other. A nil Bar draws nothing.
type Bar struct {
	out         io.Writer
	total, base int64
	file        int64
	drawn       int64
}

// New makes a bar if out is a terminal and total known, else nil.
func New(out io.Writer, total int64) *Bar {
	f, ok := out.(*os.File)
	if !ok || total <= 0 {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return &Bar{out: out, total: total, drawn: -1}
}

// Next begins the next file.
func (b *Bar) Next() {
	if b != nil {
		b.base, b.file = b.base+b.file, 0
	}
}

// At says how many bytes of the file are copied.
func (b *Bar) At(n int64) {
	if b == nil {
		return
	}
	b.file = n
	if p := (b.base + b.file) * 100 / b.total; p != b.drawn {
		b.drawn = p
		full := min(int(p)*width/100, width)
		fmt.Fprintf(b.out, "\r[%s%s] %3d%% of %d KiB", strings.Repeat("#", full), strings.Repeat(" ", width-full), p, b.total/1024)
	}
}

// Done ends the line of the bar.
func (b *Bar) Done() {
	if b != nil && b.drawn >= 0 {
		fmt.Fprintln(b.out)
	}
}
