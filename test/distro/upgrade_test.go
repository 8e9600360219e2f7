package distro

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

const shims = "/opt/quiesce/shims"

// release makes a shim of its own on the node, packed, and tells its digest.
func release(ctx context.Context, t *testing.T, l *lab.Lab, name string) (archive, sum string) {
	t.Helper()
	archive = "/root/" + name + ".tar.gz"
	out, err := l.Exec(ctx, "sh", "-ec", "mkdir -p /root/"+name+"/bin && cd /root/"+name+" && cp $(command -v containerd-shim-runc-v2) bin/containerd-shim-spin-v2 && "+
		"printf "+name+" >> bin/containerd-shim-spin-v2 && tar -czf "+archive+" . && sha256sum < "+archive)
	check(t, err)
	sum, _, _ = strings.Cut(out, " ")
	return archive, sum
}

// put makes a release live and checks how often containerd was restarted since the boot.
func put(ctx context.Context, t *testing.T, l *lab.Lab, archive, sum string, restarts int, args ...string) {
	t.Helper()
	_, err := l.Installer(ctx, append([]string{"install", "--handler", "spin-v2", "--shim", archive, "--sha256", sum}, args...)...)
	check(t, err)
	_, err = l.Installer(ctx, "status", "--wait", "--handler", "spin-v2")
	check(t, err)
	r, err := l.Runtime(ctx)
	check(t, err)
	if r.Restarts != restarts {
		t.Errorf("containerd was restarted %d times, want %d", r.Restarts, restarts)
	}
}

// versions are the directories of shims.
func versions(ctx context.Context, t *testing.T, l *lab.Lab) []string {
	t.Helper()
	out, err := l.Exec(ctx, "ls", shims)
	check(t, err)
	return strings.Fields(out)
}

// shimOf is the program of the shim that a pod has, by its sandbox's directory.
func shimOf(ctx context.Context, t *testing.T, l *lab.Lab, p *node.RunningPod) string {
	t.Helper()
	out, err := l.Exec(ctx, "sh", "-c", `for p in /proc/[0-9]*; do
	e=$(readlink $p/exe) || continue
	case $e in `+shims+`/*) echo $e $(tr '\0' ' ' <$p/cmdline);; esac
done; true`)
	check(t, err)
	for line := range strings.Lines(out) {
		if strings.Contains(line, p.SandboxID) {
			exe, _, _ := strings.Cut(strings.TrimSpace(line), " /") // argv[0] is its path, too
			return exe
		}
	}
	t.Fatalf("no shim of %s among\n%s", p.Pod.Name, out)
	return ""
}

func waitVersions(ctx context.Context, t *testing.T, l *lab.Lab, want string) {
	t.Helper()
	check(t, l.Until(ctx, "only "+want+" is left", func(ctx context.Context) (bool, error) {
		out, err := l.Exec(ctx, "ls", shims)
		return strings.TrimSpace(out) == want, err
	}))
}

const untilStopped = "trap 'exit 6' TERM; while :; do sleep 0.1; done"

// TestConfig_Upgrade: a new shim comes beside the old one, whose pods keep it until they end, and then it goes by itself;
// back again likewise; another setting is an edit. Each of the three is one restart, and no exit code is lost.
func TestConfig_Upgrade(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "upgrade", Quiet: time.Second})
	one, oneSum := release(ctx, t, l, "one")
	two, twoSum := release(ctx, t, l, "two")

	put(ctx, t, l, one, oneSum, 1)
	v1 := versions(ctx, t, l)[0]
	old, err := l.StartPod(ctx, lab.HandlerPod("old", "spin-v2", untilStopped))
	check(t, err)
	was := shimOf(ctx, t, l, old)

	put(ctx, t, l, two, twoSum, 2)
	young, err := l.StartPod(ctx, lab.HandlerPod("young", "spin-v2", untilStopped))
	check(t, err)
	is := shimOf(ctx, t, l, young)
	if now := shimOf(ctx, t, l, old); now != was || is == was || path.Base(path.Dir(was)) != v1 || len(versions(ctx, t, l)) != 2 {
		t.Errorf("the old pod has %s and had %s, the new one has %s; there are %v", now, was, is, versions(ctx, t, l))
	}
	check(t, old.Stop(ctx))
	wantExit(ctx, t, old, 6)
	v2 := path.Base(path.Dir(is))
	waitVersions(ctx, t, l, v2)

	put(ctx, t, l, one, oneSum, 3)
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("back", "spin-v2", "exit 3")), 3)
	if now := shimOf(ctx, t, l, young); now != is || len(versions(ctx, t, l)) != 2 {
		t.Errorf("the pod has %s and had %s; there are %v", now, is, versions(ctx, t, l))
	}
	check(t, young.Stop(ctx))
	wantExit(ctx, t, young, 6)

	put(ctx, t, l, one, oneSum, 4, "--set", "pod_annotations=example.com/x")
	wantExit(ctx, t, run(ctx, t, l, lab.HandlerPod("edited", "spin-v2", "exit 4")), 4)
	waitVersions(ctx, t, l, v1)
	put(ctx, t, l, one, oneSum, 4, "--set", "pod_annotations=example.com/x")
}
