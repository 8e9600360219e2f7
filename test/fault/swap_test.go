package fault_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quiesce/test/lab"
)

const secret = "nobody but root may read this"

// swapper renames what may be read, all the time: a link out of the inbox, a FIFO, another file.
func swapper(ctx context.Context, dir, name, other, target string) {
	at := func(s string) string { return filepath.Join(dir, s) }
	for ctx.Err() == nil {
		_ = os.Symlink(target, at(name+".link"))
		_ = syscall.Mkfifo(at(name+".fifo"), 0o600)
		for _, instead := range []string{name + ".link", name + ".fifo", other} {
			_ = os.Rename(at(name), at(name+".kept"))
			_ = os.Rename(at(instead), at(name))
			_ = os.Rename(at(name), at(instead))
			_ = os.Rename(at(name+".kept"), at(name))
		}
		_ = os.Remove(at(name + ".link"))
		_ = os.Remove(at(name + ".fifo"))
	}
}

// TestChaos_SwapsWhileApplyRuns: an installer pod that has the inbox swaps entries and their parts while apply takes them. What reaches the node is what a manifest says; nothing is read or written outside; and afterwards
// installs work.
func TestChaos_SwapsWhileApplyRuns(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "swaps", Quiet: 100 * time.Millisecond})
	ctx, lasts := span(ctx, t, 10*time.Second, time.Minute)
	check(t, l.WriteFile("/root/quiesce-secret/files/0", []byte(secret), 0o600))
	check(t, l.WriteFile("/root/quiesce-secret/manifest.json", []byte(secret), 0o600))
	before := hostFiles(ctx, t, l)
	shim, err := l.ReadFile("/usr/local/bin/containerd-shim-runc-v2")
	check(t, err)
	fresh := l.Path(lab.Inbox + "/new")
	swapping, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	var all sync.WaitGroup
	for _, s := range [][3]string{{"swap/files", "0", "other"}, {"swap", "manifest.json", "files/0"}, {"swap", "files", "elsewhere"}, {"", "swap", "swap-0"}} {
		target := "/root/quiesce-secret"
		if s[1] == "0" || s[1] == "manifest.json" {
			target = "/root/quiesce-secret/files/0"
		}
		all.Go(func() { swapper(swapping, filepath.Join(fresh, s[0]), s[1], s[2], target) })
	}
	all.Go(func() {
		for swapping.Err() == nil {
			_, _ = l.Quiesce(ctx, "apply", "--now", "--yes") // what was swapped is in its way
		}
	})
	staged := stageAll(swapping, l, shim)
	all.Wait()
	sh(ctx, t, l, "rm -rf "+lab.Inbox+"/new/*")
	_, err = l.Installer(ctx, "install", "--handler", "after", "--shim", "/usr/local/bin/containerd-shim-runc-v2")
	check(t, err)
	wantPhase(ctx, t, l, "after", "live")
	wantPod(ctx, t, l, "after")
	rejected := strings.Fields(sh(ctx, t, l, "ls /var/lib/quiesce/store/bad"))
	t.Logf("%d entries were staged, %d rejected", staged, len(rejected))
	if len(rejected) == 0 {
		t.Error("nothing was rejected: the race is none")
	}
	if after := hostFiles(ctx, t, l); after != before {
		t.Errorf("files changed:\n%s", diff(before, after))
	}
	if read, err := l.Exec(ctx, "grep", "-rlF", secret, "/var/lib/quiesce/store", "/var/lib/quiesce/results", "/opt/quiesce", "/etc/containerd"); err == nil {
		t.Errorf("the secret was read: %s", read)
	}
	for name := range strings.FieldsSeq(sh(ctx, t, l, "find /opt/quiesce/shims -mindepth 1 ! -type d")) {
		if b, err := l.ReadFile(name); err != nil || !bytes.Equal(b, shim) {
			t.Errorf("%s is not what was declared: %d bytes, %v", name, len(b), err)
		}
	}
	wantDaemonNeverEnded(ctx, t, l)
}

// stageAll stages entries until ctx ends, and tells how many.
func stageAll(ctx context.Context, l *lab.Lab, payload []byte) (staged int) {
	for i := 0; ctx.Err() == nil; i++ {
		id := "swap"
		if i%2 == 0 {
			id = fmt.Sprintf("swap-%d", i)
		}
		if os.Rename(tryEntry(l, id, payload), filepath.Join(l.Path(lab.Inbox+"/new"), id)) == nil {
			staged++
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return staged
}

// tryEntry is entry where the inbox changes under the feet of whoever writes to it.
func tryEntry(l *lab.Lab, id string, payload []byte) string {
	dir := l.Path("/var/lib/drafts/" + id)
	_ = os.RemoveAll(dir)
	_ = os.MkdirAll(dir+"/files", 0o700)
	_ = os.WriteFile(dir+"/files/0", payload, 0o600)
	_ = os.WriteFile(dir+"/manifest.json", manifestOf(id, "h-"+id, payload), 0o600)
	return dir
}
