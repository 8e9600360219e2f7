package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkScalePending lists so many staged entries, as the daemon does: read, checked and in order. The floor only reads
// the files.
func BenchmarkScalePending(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		dir := b.TempDir()
		stageMany(b, dir, n)
		s, err := Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("quiesce/%d", n), func(b *testing.B) {
			for b.Loop() {
				if all, err := s.Pending(); err != nil || len(all) != n {
					b.Fatalf("%d entries, %v", len(all), err)
				}
			}
		})
		b.Run(fmt.Sprintf("floor/%d", n), func(b *testing.B) {
			for b.Loop() {
				if err := readAll(filepath.Join(dir, "inbox/new")); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// stageMany stages one entry through the inbox and copies it, since staging is slow on purpose.
func stageMany(b *testing.B, dir string, n int) {
	b.Helper()
	if err := Create(dir); err != nil {
		b.Fatal(err)
	}
	inbox, err := OpenInbox(filepath.Join(dir, "inbox"))
	if err != nil {
		b.Fatal(err)
	}
	defer inbox.Close()
	payload := func(int) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("x"))), nil }
	first := install("first", "h0")
	if _, err := inbox.Stage(context.Background(), first, payload, nil); err != nil {
		b.Fatal(err)
	}
	room := filepath.Join(dir, "inbox/new")
	manifest, err := os.ReadFile(filepath.Join(room, "first", manifestName))
	if err != nil {
		b.Fatal(err)
	}
	for i := 1; i < n; i++ {
		id := fmt.Sprint("entry", i)
		text := bytes.ReplaceAll(bytes.ReplaceAll(manifest, []byte(`"first"`), []byte(`"`+id+`"`)), []byte(`"h0"`), fmt.Appendf(nil, `"h%d"`, i))
		err := errors.Join(os.MkdirAll(filepath.Join(room, id, filesDir), 0o700),
			os.WriteFile(filepath.Join(room, id, manifestName), text, 0o600),
			os.WriteFile(filepath.Join(room, id, filesDir, "0"), []byte("x"), 0o600))
		if err != nil {
			b.Fatal(err)
		}
	}
}

func readAll(room string) error {
	des, err := os.ReadDir(room)
	if err != nil {
		return err
	}
	for _, de := range des {
		if _, err := os.ReadFile(filepath.Join(room, de.Name(), manifestName)); err != nil {
			return err
		}
	}
	return nil
}
