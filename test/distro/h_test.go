package distro

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// inventory is every file of a root file system that quiesce may touch, with mode, time and target.
func inventory(ctx context.Context, root string) (string, error) {
	out, err := exec.CommandContext(ctx, "sh", "-c", "cd "+root+" && find etc opt usr/local var/lib/quiesce -xdev \\( -type f -o -type l \\) -not -path '*/shims/*' -printf '%p %m %T@ %l\n' 2>/dev/null | sort").Output()
	return string(out), err
}

// buildImage does what manifests/image/build.sh does, to a root file system in which nothing runs, with a shim; and all of it once
// more, which must find nothing to do.
func buildImage(ctx context.Context, root string) error {
	programs, shim := filepath.Join(root, "root/quiesce"), filepath.Join(root, "root/shims/containerd-shim-spin-v2")
	build := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "sh", append([]string{"../../manifests/image/build.sh", root}, args...)...)
		cmd.Env = append(os.Environ(), "BIN="+programs)
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return string(out), err
	}
	if _, err := build(); err != nil {
		return err
	}
	first, err := inventory(ctx, root)
	if err != nil {
		return err
	}
	out, err := build(shim)
	if err != nil {
		return err
	}
	staged := func(line string) bool { return strings.HasPrefix(line, "var/lib/quiesce/") }
	if again, err := inventory(ctx, root); err != nil || lines(again, staged) != lines(first, staged) || !strings.Contains(out, "already in order") {
		return fmt.Errorf("%w; the second time it says %q, and there is\n%s\nafter\n%s", err, out, again, first)
	}
	return nil
}

// lines are those of a text that are not left out.
func lines(text string, out func(line string) bool) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), out), "\n")
}

// TestConfig_h makes a node of a root file system in which nothing runs, as an image's build does: `host --root`, twice; a handler
// staged in it; the first boot; and then takes quiesce off, in each of the ways there are.
func TestConfig_h_HostInAnImage(t *testing.T) {
	t.Parallel()
	kit, err := node.Prepare(t.Context())
	check(t, err)
	tools, err := kit.Tools(t.Context(), node.DefaultContainerd)
	check(t, err)
	var original []byte
	ctx, l := lab.New(t, lab.Options{Name: "image", NoHost: true, Node: node.Config{
		Tools: map[string]string{"/root/shims/containerd-shim-spin-v2": tools + "/containerd-shim-runc-v2"},
		Image: func(root string) (err error) {
			if original, err = os.ReadFile(filepath.Join(root, config)); err != nil {
				return err
			}
			return buildImage(t.Context(), root)
		},
	}})
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
	left, err := l.Exec(ctx, "find", "/etc", "/opt", "/usr/local", "/var/lib", "/run", "-xdev", "-name", "*quiesce*")
	check(t, err)
	if now := readConfig(t, l); left != "" || now != string(original) {
		t.Errorf("left:\n%s\nthe config is\n%s\nand was\n%s", left, now, original)
	}
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
