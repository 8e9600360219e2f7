package hook

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/plugin/internal/drain"
)

func TestCheck(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test needs root: files have to be root's")
	}
	dir, err := os.MkdirTemp("/var/lib", "hook")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := func(name string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := file("good", 0o755)
	link := filepath.Join(dir, "link")
	other := file("other", 0o755)
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	inOpen := file("open/in", 0o755)
	for _, err := range []error{os.Symlink(good, link), os.Chown(other, 12345, 0), os.Chmod(open, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		good: "", link: "", other: "chown root", inOpen: "chmod go-w", file("group", 0o775): "0775", file("data", 0o644): "no executable",
		dir: "no executable", filepath.Join(dir, "none"): "no such file",
	} {
		err := Check(path)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestTail(t *testing.T) {
	var w tail
	for range 1000 {
		if n, err := w.Write([]byte("0123456789")); n != 10 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := w.String(); len(w.b) != kept || !strings.HasPrefix(got, "(5904 bytes dropped) ") || !strings.HasSuffix(got, "789") {
		t.Errorf("%d bytes: %.40q", len(got), got)
	}
}

func TestEnvironment(t *testing.T) {
	env := environment(drain.HookCall{
		Hook: drain.NodeHook{When: drain.PreTier}, Drain: "id", Tier: "storage", Reason: "shutdown", Selection: "all pods",
		Deadline: time.Unix(0, 0), Limit: 90 * time.Second,
	})
	for _, want := range []string{
		"QUIESCE_HOOK=pre-tier", "QUIESCE_TIER=storage", "QUIESCE_REASON=shutdown", "QUIESCE_PODS=all pods", "QUIESCE_DRAIN=id",
		"QUIESCE_DEADLINE=1970-01-01T00:00:00Z", "QUIESCE_TIMEOUT=90",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%q lacks %s", env, want)
		}
	}
}
