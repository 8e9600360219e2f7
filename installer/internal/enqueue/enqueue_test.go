package enqueue_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quiesce/installer/internal/enqueue"
	"quiesce/plugin/stage"
)

func newInbox(t *testing.T) (*stage.Inbox, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("only root can run this test: it writes files owned by root")
	}
	dir := t.TempDir()
	check(t, stage.Create(dir))
	box, err := stage.OpenInbox(filepath.Join(dir, "inbox"))
	check(t, err)
	t.Cleanup(func() { box.Close() })
	return box, filepath.Join(dir, "inbox")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func install(handlers ...string) stage.Manifest {
	m := stage.Manifest{Schema: stage.Schema, Op: stage.Install}
	for _, h := range handlers {
		m.Handlers = append(m.Handlers, stage.Handler{Name: h, RuntimeType: "io.containerd.runc.v2"})
	}
	return m
}

func pending(t *testing.T, box *stage.Inbox, id string) stage.Manifest {
	t.Helper()
	ms, err := box.Pending()
	check(t, err)
	i := slices.IndexFunc(ms, func(m stage.Manifest) bool { return m.ID == id })
	if i < 0 {
		t.Fatalf("%s is not staged", id)
	}
	return ms[i]
}

// An entry is later than what it makes void, whatever the clock says.
func TestTheClockWentBack(t *testing.T) {
	box, _ := newInbox(t)
	future := install("a")
	future.ID, future.Created = "future", time.Now().Add(time.Hour).UTC()
	_, err := box.Stage(t.Context(), future, nil, nil)
	check(t, err)
	got, err := enqueue.Remove(t.Context(), box, "a", false, stage.Owner{})
	check(t, err)
	if m := pending(t, box, got.ID); !m.Created.After(future.Created) || !slices.Equal(m.Supersedes, []string{"future"}) {
		t.Errorf("created %s, supersedes %v", m.Created, m.Supersedes)
	}
	if again, err := enqueue.Remove(t.Context(), box, "a", false, stage.Owner{}); err != nil || again.State != enqueue.AlreadyStaged {
		t.Errorf("the second time: %v, %v", again, err)
	}
}

// Only what is named wholly is made void.
func TestAnEntryOfTwoHandlersIsNotVoid(t *testing.T) {
	box, _ := newInbox(t)
	two := install("a", "b")
	two.ID, two.Created = "two", time.Now().UTC()
	_, err := box.Stage(t.Context(), two, nil, nil)
	check(t, err)
	got, err := enqueue.Remove(t.Context(), box, "a", false, stage.Owner{})
	check(t, err)
	if m := pending(t, box, got.ID); len(m.Supersedes) > 0 || !m.Created.After(two.Created) {
		t.Errorf("supersedes %v, created %s after %s", m.Supersedes, m.Created, two.Created)
	}
}

func TestAnInboxThatCannotBeWritten(t *testing.T) {
	tests := map[string]struct {
		mount func(dir string) error
		want  string
	}{
		"read-only": {func(dir string) error {
			if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
				return err
			}
			return unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}, "mount it writable"},
		"full": {func(dir string) error {
			if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
				return err
			}
			return errors.Join(os.Mkdir(filepath.Join(dir, "tmp"), 0o700), os.Mkdir(filepath.Join(dir, "new"), 0o700))
		}, "make room there"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, dir := newInbox(t)
			if err := tt.mount(dir); err != nil {
				t.Fatal("cannot mount here:", err)
			}
			t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
			box, err := stage.OpenInbox(dir)
			check(t, err)
			defer box.Close()
			want := install("a")
			want.Handlers[0] = stage.Handler{Name: "a", Shim: "containerd-shim-a-v1"}
			want.Files = []stage.File{{Name: "containerd-shim-a-v1", Mode: 0o755}}
			_, err = enqueue.Install(t.Context(), box, want, big{}, nil)
			if err = enqueue.Explain(dir, err); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error: %v, want %q", err, tt.want)
			}
			for _, room := range []string{"tmp", "new"} {
				if des, err := os.ReadDir(filepath.Join(dir, room)); err != nil || len(des) > 0 {
					t.Errorf("%s has %v, %v", room, des, err)
				}
			}
		})
	}
}

type big struct{}

func (big) Digest(context.Context) error { return nil }

func (big) Open(int) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(make([]byte, 1<<20))), nil
}

func TestAnInstallThatIsInterrupted(t *testing.T) {
	box, dir := newInbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	want := install("a")
	want.Handlers[0] = stage.Handler{Name: "a", Shim: "containerd-shim-a-v1"}
	want.Files = []stage.File{{Name: "containerd-shim-a-v1", Mode: 0o755}}
	_, err := enqueue.Install(ctx, box, want, big{}, func(int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	if des, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(des) > 0 {
		t.Errorf("tmp has %v, %v", des, err)
	}
}

// counted counts how often its digests are asked for.
type counted struct {
	big
	files  []stage.File
	asked  int
	opened int
}

func (c *counted) Digest(context.Context) error {
	c.asked++
	sum := sha256.Sum256(make([]byte, 1<<20))
	c.files[0].Size, c.files[0].SHA256 = 1<<20, hex.EncodeToString(sum[:])
	return nil
}

func (c *counted) Open(i int) (io.ReadCloser, error) {
	c.opened++
	return c.big.Open(i)
}

// A shim is read once where nothing is known of its handler, and not written where the same is there.
func TestReadsNoMoreThanItMust(t *testing.T) {
	box, _ := newInbox(t)
	for i, want := range []enqueue.State{enqueue.Staged, enqueue.AlreadyStaged} {
		m := install("a")
		m.Handlers[0] = stage.Handler{Name: "a", Shim: "containerd-shim-a-v1"}
		m.Files = []stage.File{{Name: "containerd-shim-a-v1", Mode: 0o755}}
		p := &counted{files: m.Files}
		got, err := enqueue.Install(t.Context(), box, m, p, nil)
		check(t, err)
		if got.State != want || p.asked != i || p.opened != 1-i {
			t.Errorf("%s: %d digests, opened %d times", got.State, p.asked, p.opened)
		}
	}
}
