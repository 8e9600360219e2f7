package upgrade

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// lockEnv names the file that this program locks instead of running tests.
const lockEnv = "LOCK_FOR_TEST"

// hold takes the lock of a file, says so, and waits for the end of its input.
func hold(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLKW, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func TestMain(m *testing.M) {
	if file := os.Getenv(lockEnv); file != "" {
		if err := hold(file); err != nil {
			panic(err)
		}
		return
	}
	m.Run()
}

// A lock of this very process does not show: another process takes it.
func TestHolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if pid := holder(file); pid != 0 {
		t.Errorf("a free lock is held by %d", pid)
	}
	if pid := holder(file + "x"); pid != 0 {
		t.Errorf("a file that is not there is held by %d", pid)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), lockEnv+"="+file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if pid := holder(file); pid != cmd.Process.Pid {
		t.Errorf("held by %d, want %d", pid, cmd.Process.Pid)
	}
	_ = in.Close()
	_ = cmd.Wait()
}

func TestSnapChange(t *testing.T) {
	dir, err := os.MkdirTemp("", "snapd")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	if got := snapChange(t.Context(), socket); got != "" {
		t.Errorf("without snapd: %q", got)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	answer := ""
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	}()
	defer l.Close()
	for text, want := range map[string]string{
		`{"result":[]}`: "",
		`{"result":[{"kind":"refresh-snap","summary":"Refresh x"}]}`:              "Refresh x",
		`{"result":[{"kind":"auto-refresh","summary":"Auto-refresh"}]}`:           "Auto-refresh",
		`{"result":[{"kind":"refresh-snap","summary":"Refresh x","ready":true}]}`: "",
		`{"result":[{"kind":"service-control","summary":"snap stop"}]}`:           "",
		`nonsense`: "",
	} {
		answer = text
		if got := snapChange(t.Context(), socket); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
