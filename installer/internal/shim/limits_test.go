package shim

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quiesce/installer/internal/refusal"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantRefused(t *testing.T, err error, want string) {
	t.Helper()
	if _, ok := errors.AsType[*refusal.Error](err); !ok || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// bomb is a tar.gz that unpacks to far more than it is: before its end, or behind it.
func bomb(t *testing.T, behind bool) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	zeros := make([]byte, 4<<20)
	if !behind {
		check(t, w.WriteHeader(&tar.Header{Name: "containerd-shim-a-v1", Size: int64(len(zeros))}))
		_, err := w.Write(zeros)
		check(t, err)
	}
	check(t, w.Close())
	if behind {
		_, err := z.Write(zeros)
		check(t, err)
	}
	check(t, z.Close())
	path := filepath.Join(t.TempDir(), "bomb.tgz")
	check(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	small := limits{packed: 1 << 20, unpacked: 2 << 20, entries: 10, stall: time.Minute, total: time.Minute}
	_, err := loader{Request{From: bomb(t, false), Scratch: dir}, small}.load(t.Context())
	wantRefused(t, err, "unpacks to more than the 2 MiB")
	_, err = loader{Request{From: bomb(t, true), Scratch: dir}, small}.load(t.Context())
	wantRefused(t, err, "goes on after its end")
	small.packed = 1 << 10
	_, err = loader{Request{From: bomb(t, false), Scratch: dir}, small}.load(t.Context())
	wantRefused(t, err, "is larger than the 0 MiB allowed")
}

// A server that sends without telling how much, one that stops sending, and one that never ends.
func TestAServerWithoutEnd(t *testing.T) {
	tests := map[string]struct {
		limits
		pause bool
		want  string
	}{
		"more than allowed": {limits{packed: 1 << 20, stall: time.Minute, total: time.Minute}, false, "is larger than the 1 MiB"},
		"nothing comes":     {limits{packed: 1 << 20, stall: 200 * time.Millisecond, total: time.Minute}, true, "nothing came for 200ms"},
		"too long":          {limits{packed: 1 << 40, stall: time.Minute, total: 300 * time.Millisecond}, true, "took longer than 300ms"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := w.Write(make([]byte, 1<<10))
				w.(http.Flusher).Flush()
				for tt.pause && r.Context().Err() == nil {
					<-r.Context().Done()
				}
				for err == nil {
					_, err = w.Write(make([]byte, 1<<16))
				}
			}))
			defer s.Close()
			dir := t.TempDir()
			ca := filepath.Join(dir, "ca.pem")
			check(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
			_, err := loader{Request{From: s.URL + "/containerd-shim-a-v1", CAFile: ca, SHA256: []string{strings.Repeat("0", 64)}, Scratch: dir}, tt.limits}.load(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if des, err := os.ReadDir(dir); err != nil || len(des) != 1 {
				t.Errorf("left: %v, %v", des, err)
			}
		})
	}
}

// Not every file system has files that never had a name.
func TestUnnamed(t *testing.T) {
	for _, make := range []func(string) (*os.File, error){nameless, unnamed} {
		dir := t.TempDir()
		f, err := make(dir)
		check(t, err)
		_, err = f.WriteString("x")
		check(t, errors.Join(err, f.Close()))
		if des, err := os.ReadDir(dir); err != nil || len(des) > 0 {
			t.Errorf("left: %v, %v", des, err)
		}
	}
}
