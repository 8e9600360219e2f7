package fault_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

// trouble is a fault of the node's disk, and what it looks like.
type trouble struct {
	name, harm, heal string
	want             string   // in the reason, and on the installer's stderr
	args             []string // of install; none: a runtime type that is on the node
}

// atApply stages in good times, applies in bad ones, and wants the entry to wait with the reason and nothing changed; then
// the same entry goes live by itself.
func (f trouble) atApply(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	before, restarts := files(ctx, t, l), runtimeOf(ctx, t, l).Restarts
	_, err := l.Quiesce(ctx, "hold", "until", "the", "trouble", "is", "there")
	check(t, err)
	handler := "apply-" + f.name
	args := f.args
	if args == nil {
		args = []string{"--runtime-type", "io.containerd.runc.v2"}
	}
	_, err = l.Installer(ctx, append([]string{"install", "--handler", handler}, args...)...)
	check(t, err)
	sh(ctx, t, l, f.harm)
	_, err = l.Exec(ctx, "sh", "-c", "/opt/quiesce/bin/quiesce release || rm /var/lib/quiesce/store/hold.json")
	if err != nil { // the hold is on the disk too
		sh(ctx, t, l, "mount -o remount,rw /var/lib/quiesce; rm /var/lib/quiesce/store/hold.json; mount -o remount,ro /var/lib/quiesce")
	}
	statusSays(ctx, t, l, "last try failed", f.want, handler)
	if now := files(ctx, t, l); now != before {
		t.Errorf("%s: containerd's files are\n%s\nwere\n%s", f.name, now, before)
	}
	if now := runtimeOf(ctx, t, l).Restarts; now != restarts {
		t.Errorf("%s: containerd was restarted", f.name)
	}
	sh(ctx, t, l, f.heal)
	wantPhase(ctx, t, l, handler, "live")
	if now := runtimeOf(ctx, t, l).Restarts; now != restarts+1 {
		t.Errorf("%s: %d restarts, want one", f.name, now-restarts)
	}
	check(t, l.Until(ctx, f.name+": nothing is left behind", func(ctx context.Context) (bool, error) { // apply and the daemon still write their hints
		left, err := l.Exec(ctx, "sh", "-c", "find /etc/containerd /opt/quiesce/shims /var/lib/quiesce -name '.quiesce*' -o -name journal.json; true") // one may go meanwhile
		return strings.TrimSpace(left) == "", err
	}))
}

// atInstall stages in bad times, and again in good ones.
func (f trouble) atInstall(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	before := sh(ctx, t, l, "find /var/lib/quiesce/inbox | sort")
	sh(ctx, t, l, f.harm)
	install := []string{"install", "--handler", "install-" + f.name, "--shim", "/usr/local/bin/containerd-shim-runc-v2"}
	_, err := l.Installer(ctx, install...)
	failsWith(t, err, 1, f.want)
	sh(ctx, t, l, f.heal)
	if now := sh(ctx, t, l, "find /var/lib/quiesce/inbox | sort"); now != before {
		t.Errorf("%s: the inbox has\n%s\nhad\n%s", f.name, now, before)
	}
	_, err = l.Installer(ctx, install...)
	check(t, err)
	wantPhase(ctx, t, l, "install-"+f.name, "live")
}

const (
	fill   = "! dd if=/dev/zero of=%[1]s/ballast bs=4k 2>/dev/null; ! dd if=/dev/zero of=%[1]s/ballast2 bs=1 2>/dev/null"
	unfill = "rm -f %[1]s/ballast %[1]s/ballast2"
)

func full(name, dir string, args ...string) trouble {
	return trouble{name, replace(fill, dir), replace(unfill, dir), "no space left on device", args}
}

func readOnly(name, dir string) trouble {
	return trouble{name, "mount -o remount,ro " + dir, "mount -o remount,rw " + dir, "read-only file system", nil}
}

// TestLoss_e_StageOnADiskOfItsOwn: the stage is mounted under a running daemon, fills up, becomes read-only, loses rooms.
func TestLoss_e_StageOnADiskOfItsOwn(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "fault-e-stage", Quiet: 300 * time.Millisecond})
	sh(ctx, t, l, "mount -t tmpfs -o size=40m none /var/lib/quiesce")
	statusSays(ctx, t, l, "last try failed", "quiesce-installer host")
	host := func() {
		_, err := l.Installer(ctx, "host")
		check(t, err)
		statusSays(ctx, t, l, "GATE")
	}
	host()
	stage(ctx, t, l, "first")
	wantPhase(ctx, t, l, "first", "live")

	full("full", "/var/lib/quiesce").atInstall(ctx, t, l)
	readOnly("ro", "/var/lib/quiesce").atInstall(ctx, t, l)
	trouble{"no-room", "mv /var/lib/quiesce/inbox/new /root/", "mv /root/new /var/lib/quiesce/inbox/", "no directory", nil}.atInstall(ctx, t, l)
	trouble{"other-disk", "mount -t tmpfs none /var/lib/quiesce/inbox/new", "umount /var/lib/quiesce/inbox/new", "cross-device", nil}.atInstall(ctx, t, l)

	full("full", "/var/lib/quiesce").atApply(ctx, t, l)
	readOnly("ro", "/var/lib/quiesce").atApply(ctx, t, l)

	stage(ctx, t, l, "last")
	sh(ctx, t, l, "rm -rf /var/lib/quiesce/results")
	statusSays(ctx, t, l, "the stage is gone")
	host()
	check(t, l.Until(ctx, "the last entry is live", func(ctx context.Context) (bool, error) {
		out, err := l.Exec(ctx, "crictl", "info")
		return err == nil && contains(out, `"last"`), nil
	}))
}

// TestLoss_e_ContainerdsFiles: the same of containerd's configuration and of the directory of shims.
func TestLoss_e_ContainerdsFiles(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "fault-e", Quiet: 300 * time.Millisecond})
	sh(ctx, t, l, `cp -a /etc/containerd /root/c; mount -t tmpfs -o size=256k none /etc/containerd; cp -a /root/c/. /etc/containerd/
mkdir -p /opt/quiesce/shims; mount -t tmpfs -o size=60m none /opt/quiesce/shims
mkdir /root/another; cp /usr/local/bin/containerd-shim-runc-v2 /root/another/; printf x >>/root/another/containerd-shim-runc-v2`)
	shim := []string{"--shim", "/usr/local/bin/containerd-shim-runc-v2"}
	full("full-etc", "/etc/containerd").atApply(ctx, t, l)
	readOnly("ro-etc", "/etc/containerd").atApply(ctx, t, l)
	for _, f := range []trouble{
		{"immutable-dir", "chattr +i /etc/containerd/conf.d", "chattr -i /etc/containerd/conf.d", "operation not permitted", nil},
		{"ro-shims", "mount -o remount,ro /opt/quiesce/shims", "mount -o remount,rw /opt/quiesce/shims", "read-only file system", shim},
		full("full-shims", "/opt/quiesce/shims", "--shim", "/root/another/containerd-shim-runc-v2"),
	} {
		f.atApply(ctx, t, l)
	}
}

// TestLoss_e_TheClock: an entry from the future does not win over one that was taken later, nor one from the past lose.
func TestLoss_e_TheClock(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "fault-e-clock", Quiet: 300 * time.Millisecond})
	put := func(id, op, created string) {
		handler := `{"name":"clock","runtime_type":"io.containerd.runc.v2"}`
		if op == "remove" {
			handler = `{"name":"clock"}`
		}
		dir := "/var/lib/quiesce/inbox/tmp/" + id
		check(t, l.WriteFile(dir+"/manifest.json", []byte(`{"schema":1,"id":"`+id+`","owner":{},"op":"`+op+`","handlers":[`+handler+`],"created":"`+created+`"}`), 0o600))
		sh(ctx, t, l, "mv "+dir+" /var/lib/quiesce/inbox/new/")
	}
	put("from-future", "install", "2099-01-01T00:00:00Z")
	wantEntry(ctx, t, l, "from-future", "live")
	put("from-past", "remove", "1999-01-01T00:00:00Z")
	wantEntry(ctx, t, l, "from-past", "removed")
	put("from-now", "install", "2026-01-01T00:00:00Z")
	wantEntry(ctx, t, l, "from-now", "live")
	_, err := l.Installer(ctx, "uninstall", "--handler", "clock")
	check(t, err)
	check(t, l.Until(ctx, "the handler is removed", func(ctx context.Context) (bool, error) {
		rs, err := l.Results(ctx)
		return rs["clock"].Phase == "removed" && rs["clock"].ID != "from-past", err
	}))
}
