package fault_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quiesce/test/lab"
)

// entry writes an entry with one file straight into the inbox, and tells where.
func entry(t *testing.T, l *lab.Lab, id, handler string, payload []byte) string {
	t.Helper()
	dir := l.Path(lab.Inbox + "/tmp/" + id)
	check(t, os.MkdirAll(dir+"/files", 0o700))
	check(t, os.WriteFile(dir+"/files/0", payload, 0o600))
	check(t, os.WriteFile(dir+"/manifest.json", manifestOf(id, handler, payload), 0o600))
	return dir
}

func manifestOf(id, handler string, payload []byte) []byte {
	return fmt.Appendf(nil, `{"schema":1,"id":%q,"owner":{},"op":"install","handlers":[{"name":%q,"shim":"containerd-shim-x-v2"}],`+
		`"files":[{"name":"containerd-shim-x-v2","mode":493,"size":%d,"sha256":"%x"}],"created":"2026-01-01T00:00:00Z"}`, id, handler, len(payload), sha256.Sum256(payload))
}

type harmEntry struct {
	harm func(dir string) error
	want string
}

func swap(name string, make func(path string) error) func(string) error {
	return func(dir string) error {
		return errors.Join(os.RemoveAll(filepath.Join(dir, name)), make(filepath.Join(dir, name)))
	}
}

func fifo(p string) error { return syscall.Mkfifo(p, 0o600) }

func device(p string) error { return syscall.Mknod(p, syscall.S_IFBLK|0o600, 7<<8) }

func link(to string) func(string) error {
	return func(p string) error { return os.Symlink(to, p) }
}

func edit(old, new string) func(string) error {
	return func(dir string) error {
		b, err := os.ReadFile(dir + "/manifest.json")
		return errors.Join(err, os.WriteFile(dir+"/manifest.json", bytes.Replace(b, []byte(old), []byte(new), 1), 0o600))
	}
}

func content(name string, b []byte) func(string) error {
	return swap(name, func(p string) error { return os.WriteFile(p, b, 0o600) })
}

func hostile() map[string]harmEntry {
	return map[string]harmEntry{
		"another-digest": {func(d string) error { return os.WriteFile(d+"/files/0", []byte("#!/bin/sh\nreboot -f\n"), 0o600) }, "bytes"},
		"same-size":      {func(d string) error { return os.WriteFile(d+"/files/0", []byte("y"), 0o600) }, "sha256"},
		"quote":          {edit(`"name":"h-`, `"name":"h\"`), "handlers.name"},
		"newline":        {edit(`"name":"h-`, `"name":"h\n`), "handlers.name"},
		"slash":          {edit(`"name":"h-`, `"name":"../h`), "handlers.name"},
		"megabyte":       {edit(`"name":"h-`, `"name":"`+strings.Repeat("h", 1<<20-1000)), "handlers.name"},
		"manifest-fifo":  {swap("manifest.json", fifo), "a FIFO"},
		"manifest-dev":   {swap("manifest.json", device), "a device"},
		"manifest-link":  {swap("manifest.json", link("/etc/passwd")), "a symbolic link"},
		"truncated":      {content("manifest.json", []byte(`{"schema":1,"id":"tr`)), "manifest.json"},
		"huge":           {content("manifest.json", make([]byte, 2<<20)), "more than"},
		"binary":         {content("manifest.json", []byte{0, 1, 2, 0xff}), "manifest.json"},
		"schema":         {edit(`"schema":1`, `"schema":2`), "schema 2"},
		"destination":    {edit(`"op"`, `"dest":"/etc/cron.d","op"`), "dest"},
		"path":           {edit(`"containerd-shim-x-v2","mode"`, `"../../../etc/cron.d/x","mode"`), "files.name"},
		"file-fifo":      {swap("files/0", fifo), "a FIFO"},
		"file-dev":       {swap("files/0", device), "a device"},
		"file-link":      {swap("files/0", link("/usr/local/bin/containerd")), "a symbolic link"},
		"file-hard":      {func(d string) error { return os.Link(d+"/files/0", d+"/../../hard") }, "hard links"},
		"files-link":     {swap("files", link("/etc")), "a symbolic link"},
		"entry-link":     {swap("", link("/etc")), "a symbolic link"},
		"entry-fifo":     {swap("", fifo), "a FIFO"},
		"many-files": {func(d string) (err error) {
			for i := range 100_000 {
				err = errors.Join(err, os.WriteFile(fmt.Sprintf("%s/files/x%d", d, i), nil, 0o600))
			}
			return err
		}, "is not in the manifest"},
		"deep": {func(d string) error { return os.MkdirAll(d+"/files"+strings.Repeat("/d", 1500), 0o700) }, "is not in the manifest"},
	}
}

// hostFiles lists what is not quiesce's to touch; the labels for Node Feature Discovery are.
func hostFiles(ctx context.Context, t *testing.T, l *lab.Lab) string {
	t.Helper()
	return sh(ctx, t, l, `find /etc /usr /opt /root /srv -xdev ! -path '/opt/quiesce/shims*' ! -path '/etc/containerd*' ! -path /etc/kubernetes ! -path '/etc/kubernetes/node-feature-discovery*' ! -path '/root/quiesce*' -printf '%p %y %m %U:%G %l ' \( -type f -printf '%s %T@\n' -o -printf '\n' \) | sort`)
}

// TestLoss_f_HostileEntries: all of them at once, beside a good one that goes live; nothing else on the node changes.
func TestLoss_f_HostileEntries(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "fault-f", Quiet: time.Second})
	before := hostFiles(ctx, t, l)
	shim, err := l.ReadFile("/usr/local/bin/containerd-shim-runc-v2")
	check(t, err)
	other := bytes.Clone(shim)
	other[18], other[19] = 0xf7, 0 // e_machine: BPF
	_, err = l.Quiesce(ctx, "hold")
	check(t, err)
	want := map[string]string{}
	stage := func(id, handler string, payload []byte, e harmEntry) {
		dir := entry(t, l, id, handler, payload)
		if e.harm != nil {
			check(t, e.harm(dir))
		}
		check(t, os.Rename(dir, l.Path(lab.Inbox+"/new/"+id)))
		want[id] = e.want
	}
	for name, e := range hostile() {
		stage(name, "h-"+name, []byte("x"), e)
	}
	stage("other-machine", "h-other", other, harmEntry{want: "is built for"})
	stage("no-elf", "h-elf", []byte("hello"), harmEntry{want: "not an ELF"})
	stage("script", "h-script", []byte("#!/bin/sh\nexec id\n"), harmEntry{want: "not an ELF"})
	stage("good-entry", "good", shim, harmEntry{})
	delete(want, "good-entry")
	for _, odd := range []string{"od d", "-x", "../new/ä", "a\nb", "restart"} {
		check(t, os.MkdirAll(l.Path(lab.Inbox+"/new/"+filepath.Base(odd)), 0o700))
	}
	_, err = l.Quiesce(ctx, "release")
	check(t, err)
	wantEntry(ctx, t, l, "good-entry", "live")
	wantPod(ctx, t, l, "good")
	for id, words := range want {
		wantEntry(ctx, t, l, id, "rejected", words)
	}
	statusSays(ctx, t, l, "REJECTED", "must be")
	if left := sh(ctx, t, l, "ls -A "+lab.Inbox+"/new"); left != "" {
		t.Errorf("left in the inbox: %s", left)
	}
	if after := hostFiles(ctx, t, l); after != before {
		t.Errorf("files changed:\n%s", diff(before, after))
	}
	wantDaemonNeverEnded(ctx, t, l)
}

func wantDaemonNeverEnded(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	out := sh(ctx, t, l, "systemctl show quiesce.service -p NRestarts -p ActiveState")
	if !strings.Contains(out, "NRestarts=0") || !strings.Contains(out, "ActiveState=active") {
		t.Errorf("the daemon: %s", out)
	}
}

// diff lists the lines that only one of two texts has.
func diff(a, b string) string {
	var out []string
	for _, p := range [][2]string{{a, b}, {b, a}} {
		for line := range strings.Lines(p[0]) {
			if !strings.Contains(p[1], line) {
				out = append(out, line)
			}
		}
	}
	return strings.Join(out[:min(len(out), 20)], "")
}

// TestLoss_f_ControlSocket: garbage, clients that send nothing or a byte now and then, and a thousand of them.
func TestLoss_f_ControlSocket(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "fault-f-ctl", Quiet: time.Second})
	socket := l.Path("/run/quiesce/control.sock")
	garbage := []string{
		"", "\x00", strings.Repeat("A", 1<<20), "GET /v1/status HTTP/1.1\r\n", "POST /v1/hold HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{",
		"POST /v1/hold HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/fence HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nnull", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	}
	var conns []net.Conn
	var writing sync.WaitGroup
	for i := range 1000 {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		check(t, err)
		conns = append(conns, c)
		check(t, c.SetWriteDeadline(time.Now().Add(5*time.Second)))
		writing.Go(func() { _, _ = c.Write([]byte(garbage[i%len(garbage)])) }) // the daemon may have closed it
	}
	began := time.Now()
	s, err := l.Status(ctx)
	check(t, err)
	if took := time.Since(began); took > 10*time.Second || s.Gate.Phase != "idle" {
		t.Errorf("with a thousand clients status took %v and says %+v", took, s.Gate)
	}
	stage(ctx, t, l, "beside")
	wantPhase(ctx, t, l, "beside", "live")
	writing.Wait()
	for _, c := range conns {
		check(t, c.Close())
	}
	wantDaemonNeverEnded(ctx, t, l)
}
