package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"strings"
	"testing"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestMain lets more tests run beside each other than there are processors: nearly all of their time they wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	m.Run()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sh runs a script on the node.
func sh(ctx context.Context, t *testing.T, l *lab.Lab, script string) string {
	t.Helper()
	out, err := l.Exec(ctx, "sh", "-c", "set -e\n"+script)
	check(t, err)
	return out
}

// files lists the files of containerd's configuration and their digests.
func files(ctx context.Context, t *testing.T, l *lab.Lab) string {
	t.Helper()
	return sh(ctx, t, l, "find /etc/containerd -type f ! -name 'ballast*' | sort | xargs sha256sum")
}

func runtimeOf(ctx context.Context, t *testing.T, l *lab.Lab) lab.Runtime {
	t.Helper()
	r, err := l.Runtime(ctx)
	check(t, err)
	return r
}

// stage stages a handler that needs no shim.
func stage(ctx context.Context, t *testing.T, l *lab.Lab, handler string, args ...string) {
	t.Helper()
	_, err := l.Installer(ctx, append([]string{"install", "--handler", handler, "--runtime-type", "io.containerd.runc.v2"}, args...)...)
	check(t, err)
}

func wantPhase(ctx context.Context, t *testing.T, l *lab.Lab, handler, phase string, words ...string) lab.Result {
	t.Helper()
	r, err := l.WaitPhase(ctx, handler, phase)
	check(t, err)
	for _, w := range words {
		if !strings.Contains(r.Reason, w) {
			t.Errorf("%s is %s because %q, want %q in it", handler, phase, r.Reason, w)
		}
	}
	return r
}

// wantEntry waits until an entry is in a phase.
func wantEntry(ctx context.Context, t *testing.T, l *lab.Lab, id, phase string, words ...string) {
	t.Helper()
	var r lab.Result
	err := l.Until(ctx, id+" is "+phase, func(context.Context) (bool, error) {
		b, err := l.ReadFile(lab.Results + "/" + id + ".json")
		if err != nil || json.Unmarshal(b, &r) != nil {
			return false, nil //nolint:nilerr // there is no result yet
		}
		return r.Phase == phase, nil
	})
	if err != nil {
		t.Fatalf("%v; it is %q (%s)", err, r.Phase, r.Reason)
	}
	for _, w := range words {
		if !strings.Contains(r.Reason, w) {
			t.Errorf("%s is %s because %q, want %q in it", id, phase, r.Reason, w)
		}
	}
}

// wantPod runs a pod of a handler and checks its exit code.
func wantPod(ctx context.Context, t *testing.T, l *lab.Lab, handler string) {
	t.Helper()
	p, err := l.RunPod(ctx, lab.HandlerPod("", handler, "exit 5"))
	check(t, err)
	s, err := p.Status(ctx, "main")
	check(t, err)
	if s.GetExitCode() != 5 {
		t.Errorf("a pod of %q ended %d %s, want 5", handler, s.GetExitCode(), s.GetReason())
	}
}

// failsWith checks the exit code and the words of a command that must not work.
func failsWith(t *testing.T, err error, code int, words string) {
	t.Helper()
	exit, ok := errors.AsType[*node.ExitError](err)
	if !ok || exit.Code != code || !strings.Contains(exit.Stderr, words) {
		t.Errorf("got %v, want exit code %d and %q", err, code, words)
	}
}

// statusSays waits until the table of quiesce status has some words.
func statusSays(ctx context.Context, t *testing.T, l *lab.Lab, words ...string) {
	t.Helper()
	var last string
	err := l.Until(ctx, "status says "+strings.Join(words, " and "), func(ctx context.Context) (bool, error) {
		out, err := l.Quiesce(ctx, "status")
		last = out
		for _, w := range words {
			if err != nil || !strings.Contains(out, w) {
				return false, nil //nolint:nilerr // the daemon may be starting
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("%v; it says:\n%s", err, last)
	}
}

func contains(s, word string) bool { return strings.Contains(s, word) }

// replace puts a directory into a script.
func replace(script, dir string) string { return strings.ReplaceAll(script, "%[1]s", dir) }

func readJSON(t *testing.T, l *lab.Lab, name string, v any) {
	t.Helper()
	b, err := l.ReadFile(name)
	check(t, err)
	check(t, json.Unmarshal(b, v))
}
