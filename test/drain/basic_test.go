package drain

import (
	"strings"
	"testing"

	"quiesce/test/lab"
)

func TestDrain_Basics(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "basics"})
	static := Victim("kube-system", "etcd", 5, "-after", "100ms")
	static.Source = "file"
	pods := []Pod{
		Victim("default", "web", 10, "-after", "500ms", "-code", "3"), Victim("default", "deaf", 3, "-deaf"),
		Victim("kube-system", "dns", 0, "-after", "200ms"), static,
	}
	check(t, k.Start(ctx, pods...))
	started(ctx, t, l, names(pods)...)
	plan, err := l.Quiesce(ctx, "plan")
	check(t, err)
	t.Logf("\n%s", plan)
	if _, err := l.Quiesce(ctx, "drain", "--all"); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("without --yes off a terminal: %v", err)
	}
	out, err := l.Quiesce(ctx, "drain", "--all", "--yes")
	check(t, err)
	t.Logf("\n%s", out)
	table, err := l.Quiesce(ctx, "report")
	check(t, err)
	t.Logf("\n%s", table)
	r := report(ctx, t, l)
	for c, want := range map[string]string{"web/main": "exited", "deaf/main": "killed at deadline", "dns/main": "exited", "etcd/main": "exited"} {
		if got := r.outcomes()[c]; got != want {
			t.Errorf("%s: %q, want %q", c, got, want)
		}
	}
	for _, p := range pods {
		if n := len(signals(t, l, p.Name)); n != 1 {
			t.Errorf("%s got %d signals", p.Name, n)
		}
	}
	if left := running(ctx, t, l); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	if s, err := l.Quiesce(ctx, "status"); err != nil || !strings.Contains(s, "fence up") {
		t.Errorf("status: %v\n%s", err, s)
	}
	_, err = l.Quiesce(ctx, "resume")
	check(t, err)
	check(t, k.sync(ctx, pods[0]))
}
