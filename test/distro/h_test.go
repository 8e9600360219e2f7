package distro

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestConfig_h makes a node of an image in which nothing runs: `host --root`, twice; a handler staged in it; the first boot;
// and then takes quiesce off, in each of the ways there are.
func TestConfig_h_HostInAnImage(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "image", NoHost: true, Shims: []string{"spin-v2"}, Node: node.Config{
		Files: map[string]node.File{"/root/shims/containerd-shim-spin-v2": {Content: "", Mode: 0o755}},
	}})
	// The node's own file system is the image: nothing of it that runs is asked.
	_, err := l.Exec(ctx, "sh", "-c", "cp $(command -v containerd-shim-runc-v2) /root/shims/containerd-shim-spin-v2")
	check(t, err)
	list := func() string {
		out, err := l.Exec(ctx, "sh", "-c", "find /etc /opt /usr/local /var/lib/quiesce -xdev \\( -type f -o -type l \\) -not -path '*/shims/*' -printf '%p %m %T@ %l\\n' 2>/dev/null | sort")
		check(t, err)
		return out
	}
	before := list()
	_, err = l.Installer(ctx, "host", "--root", "/")
	check(t, err)
	first := list()
	out, err := l.Installer(ctx, "host", "--root", "/")
	check(t, err)
	if again := list(); again != first || !strings.Contains(out, "already in order") {
		t.Errorf("the second time it says %q, and there is\n%s\nafter\n%s", out, again, first)
	}
	_, err = l.Installer(ctx, "install", "--handler", "spin-v2", "--shim", "/root/shims/containerd-shim-spin-v2")
	check(t, err)
	reboot(ctx, t, l)
	_, err = l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	starts, err := l.Starts(ctx)
	check(t, err)
	if len(starts) != 1 {
		t.Errorf("containerd was started %d times in the first boot, want once", len(starts))
	}
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("one", "spin-v2", "exit 3")), 3)
	if out, err := l.Installer(ctx, "host", "--remove"); err == nil || !strings.Contains(err.Error(), "live handlers: spin-v2") {
		t.Errorf("removed with a live handler: %s, %v", out, err)
	}
	_, err = l.Installer(ctx, "host", "--remove", "--keep-handlers")
	check(t, err)
	_, err = l.Exec(ctx, "systemctl", "restart", "containerd.service")
	check(t, err)
	check(t, l.WaitCRI(ctx))
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("two", "spin-v2", "exit 4")), 4)
	if out, err := l.Exec(ctx, "systemctl", "list-units", "--all", "--plain", "--no-legend", "quiesce*"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("left in systemd: %s, %v", out, err)
	}
	_, err = l.Installer(ctx, "host")
	check(t, err)
	uninstall(ctx, t, l, "spin-v2")
	_, err = l.Installer(ctx, "host", "--remove")
	check(t, err)
	if after := list(); after != before && strip(after) != strip(before) {
		t.Errorf("there is\n%s\nand there was\n%s", after, before)
	}
}

// strip leaves out when containerd's config was written last: it was edited, and edited back.
func strip(list string) string {
	var out []string
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == config {
			line = strings.Join(f[:2], " ")
		}
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

// TestConfig_g: an entry whose owner is gone is applied all the same, and one of a schema that is too old or too new is
// refused with the reason. A stage on another file system and a clock that goes back are in test/fault.
func TestConfig_g_OddEntries(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "odd", Quiet: time.Second, Shims: []string{"spin-v2"}})
	p := run(ctx, t, l, lab.InstallPod("owner", "spin-v2", 0, 0))
	check(t, p.Remove(ctx)) // its Job was deleted as soon as it had ended
	_, err := l.WaitPhase(ctx, "spin-v2", "live")
	check(t, err)
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("one", "spin-v2", "exit 3")), 3)
	for _, schema := range []string{"0", "999"} {
		id := "old-" + schema
		_, err := l.Exec(ctx, "sh", "-c", "mkdir "+lab.Inbox+"/tmp/"+id+" && echo '{\"schema\":"+schema+",\"id\":\""+id+"\",\"op\":\"install\",\"handlers\":[{\"name\":\"x"+schema+
			"\",\"runtime_type\":\"io.containerd.runc.v2\"}],\"created\":\"2026-01-02T03:04:05Z\"}' >"+lab.Inbox+"/tmp/"+id+"/manifest.json && mv "+lab.Inbox+"/tmp/"+id+" "+lab.Inbox+"/new/"+id)
		check(t, err)
		check(t, l.Until(ctx, id+" is refused", func(ctx context.Context) (bool, error) {
			out, err := l.Quiesce(ctx, "status")
			return strings.Contains(out, "REJECTED") && strings.Contains(out, id) && strings.Contains(out, "schema"), err
		}))
	}
	r, err := l.Runtime(ctx)
	check(t, err)
	if r.Restarts != 1 {
		t.Errorf("containerd was restarted %d times, want once", r.Restarts)
	}
}
