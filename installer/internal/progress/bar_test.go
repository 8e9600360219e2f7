package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := &Bar{out: &out, total: 4096, drawn: -1}
	b.Next()
	b.At(1024)
	b.At(1024)
	b.Next()
	b.At(3072)
	b.Done()
	want := []string{"", "[#######                       ]  25% of 4 KiB", "[##############################] 100% of 4 KiB\n"}
	if got := strings.Split(out.String(), "\r"); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("drew %q, want %q", got, want)
	}
}

func TestNoBarWhereThereIsNoTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := New(f, 10)
	b.Next()
	b.At(5)
	b.Done()
	if fi, err := f.Stat(); b != nil || err != nil || fi.Size() > 0 {
		t.Errorf("bar %v, error %v", b, err)
	}
}
