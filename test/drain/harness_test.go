package drain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

// TestMain has four nodes beside each other: the pods of most tests use all of their graces.
func TestMain(m *testing.M) { os.Exit(lab.Beside(m, 4)) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// setup boots a node with quiesce and its drain unit. No test takes nearly as long as its limit, which is for what hangs.
func setup(t testing.TB, o lab.Options) (context.Context, *lab.Lab, *Kubelet) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Minute, errors.New("the test's time is over"))
	t.Cleanup(cancel)
	l, k, err := Boot(ctx, o)
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			keep(t, l)
		}
		check(t, l.Close())
	})
	return ctx, l, k
}

func keep(t testing.TB, l *lab.Lab) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	journal, err := l.Journal(ctx)
	if err != nil {
		t.Logf("read journal: %v", err)
	}
	file := filepath.Join("..", "..", "out", strings.ReplaceAll(t.Name(), "/", "-")+".journal")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(journal), 0o644)); err != nil {
		t.Logf("keep journal: %v", err)
	}
	var tail []string
	for line := range strings.Lines(journal) {
		if strings.Contains(line, "level=debug") || strings.Contains(line, `"debug"`) {
			continue
		}
		if strings.Contains(line, " quiesce[") || strings.Contains(line, " systemd[1]: ") && strings.Contains(line, "containerd") || strings.Contains(line, "panic") {
			tail = append(tail, line)
		}
	}
	t.Logf("end of the journal's lines on quiesce and of systemd's on containerd:\n%s", strings.Join(tail[max(0, len(tail)-40):], ""))
}

func sh(ctx context.Context, t testing.TB, l *lab.Lab, text string) string {
	t.Helper()
	out, err := script(ctx, l, text)
	check(t, err)
	return out
}

func report(ctx context.Context, t testing.TB, l *lab.Lab) Report {
	t.Helper()
	r, err := ReadReport(ctx, l)
	check(t, err)
	return r
}

// running lists the pods of the containers that run.
func running(ctx context.Context, t testing.TB, l *lab.Lab) (names []string) {
	t.Helper()
	list, err := Running(ctx, l)
	check(t, err)
	for _, ct := range list {
		names = append(names, podName(ct))
	}
	return names
}

func started(ctx context.Context, t testing.TB, l *lab.Lab, logs ...string) {
	t.Helper()
	check(t, Started(ctx, l, logs...))
}

// signals are the signals a victim got, in order.
func signals(t testing.TB, l *lab.Lab, log string) []Event {
	t.Helper()
	got, err := Signals(l, log)
	check(t, err)
	return got
}
