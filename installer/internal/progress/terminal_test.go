package progress

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal gives both ends of a pseudo-terminal.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal("a terminal is needed:", err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return screen, tty
}

func TestOnATerminal(t *testing.T) {
	screen, tty := terminal(t)
	for _, unknown := range []int64{-1, 0} {
		if New(tty, unknown) != nil {
			t.Errorf("a bar of %d bytes", unknown)
		}
	}
	b := New(tty, 2048)
	b.At(1024)
	b.Done()
	got := make([]byte, 200)
	n, err := screen.Read(got)
	if err != nil || !strings.Contains(string(got[:n]), "50% of 2 KiB") {
		t.Errorf("drew %q, %v", got[:n], err)
	}
}
