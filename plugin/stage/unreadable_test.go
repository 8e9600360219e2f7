package stage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatCannotBeReadIsNotAbsent: a fault of the disk in one file of the store must not make another entry count, nor an
// entry that is live be dropped.
func TestWhatCannotBeReadIsNotAbsent(t *testing.T) {
	for _, name := range []string{".", manifestName, "state.json"} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			for _, h := range []string{"a", "b"} {
				f.stage(t, install("install-"+h, h), program(t))
			}
			check(t, errors.Join(f.takeAll(t)...))
			es := must(f.store.Acting())
			check(t, f.store.Settle(es[0]))
			file := filepath.Join(f.store.dir, "store/cur", es[0].ID, name)
			if err := os.Chmod(file, 0); err != nil {
				t.Fatal(err)
			}
			var current []Entry
			var err, settled error
			asNobody(t, f.store.dir, func() {
				current, err = f.store.Current()
				settled = f.store.Settle(es[1])
			})
			if err == nil || settled == nil {
				t.Errorf("the list is %v, %v; settling the next one: %v", current, err, settled)
			}
			if len(Outdated(current)) > 0 {
				t.Errorf("%v counts no more", Outdated(current))
			}
			if _, err := os.Lstat(file); err != nil {
				t.Errorf("it is gone: %v", err)
			}
		})
	}
}

// TestPendingSaysWhatItCannotRead: an installer must not take an entry that the disk does not give for one that is not there.
func TestPendingSaysWhatItCannotRead(t *testing.T) {
	f := open(t)
	f.stage(t, install("install-a", "a"), program(t))
	apart(t, func() {
		file := filepath.Join(f.dir, "inbox/new/install-a", manifestName)
		if err := unix.Mount("/proc/self/mem", file, "", unix.MS_BIND, ""); err != nil { // reading it is EIO
			t.Error(err)
			return
		}
		box, err := OpenInbox(filepath.Join(f.dir, "inbox"))
		if err != nil {
			t.Error(err)
			return
		}
		defer box.Close()
		if ms, err := box.Pending(); !errors.Is(err, unix.EIO) || len(ms) > 0 {
			t.Errorf("%v, %v", ms, err)
		}
	})
	if ms, err := f.inbox.Pending(); err != nil || len(ms) != 1 {
		t.Errorf("%v, %v", ms, err)
	}
}

// apart runs f where its mounts are its own; it needs root.
func apart(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // ends with this goroutine
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
			t.Errorf("have mounts of one's own, which needs root: %v", err)
			return
		}
		f()
	}()
	<-done
}

// asNobody runs f as one who owns all below dir but may read nothing that has no mode, even if this is root's test.
func asNobody(t *testing.T, dir string, f func()) {
	t.Helper()
	const nobody = 65534
	if os.Geteuid() != 0 {
		f()
		return
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // ends with this goroutine
		if err := unix.Setfsuid(nobody); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}
