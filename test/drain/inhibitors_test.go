package drain

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

// TestDrain_Inhibitors: logind has read the drop-in, a signal that is not logind's drains nothing, and a kubelet that delays
// the shutdown itself is left to it; what that leaves is drained when the services stop.
func TestDrain_Inhibitors(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-logind", Config: "[drain]\ndeadline = '11m'"})
	check(t, k.Start(ctx, Victim("default", "web", 10)))
	started(ctx, t, l, "web")
	inEffect := func(want string) {
		t.Helper()
		check(t, l.Until(ctx, "logind's delay is "+want, func(ctx context.Context) (bool, error) {
			out, err := l.Exec(ctx, "busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "InhibitDelayMaxUSec")
			return strings.TrimSpace(out) == "t "+want, err
		}))
	}
	inEffect("600000000")
	status, err := l.Quiesce(ctx, "status")
	check(t, err)
	if !strings.Contains(status, "logind delays a shutdown for 10m0s at most and a drain may take 11m0s") {
		t.Errorf("the status does not tell that 10m is short of 11m:\n%s", status)
	}
	check(t, l.Until(ctx, "quiesce delays shutdowns", func(ctx context.Context) (bool, error) {
		out, err := l.Exec(ctx, "systemd-inhibit", "--list", "--no-legend")
		return strings.Contains(out, "quiesce"), err
	}))
	sh(ctx, t, l, "busctl emit /org/freedesktop/login1 org.freedesktop.login1.Manager PrepareForShutdown b true")
	sh(ctx, t, l, `systemd-run --unit fake-kubelet systemd-inhibit --what=shutdown --who=kubelet --mode=delay --why=test sh -c 'while ! [ -e /run/done ]; do sleep 0.1; done'`)
	check(t, l.Until(ctx, "the kubelet's inhibitor is in the status", func(ctx context.Context) (bool, error) {
		out, err := l.Quiesce(ctx, "status")
		return strings.Contains(out, "the kubelet delays shutdowns"), err
	}))
	if got := signals(t, l, "web"); len(got) != 0 {
		t.Errorf("a signal that is not logind's: web got %v", got)
	}
	sh(ctx, t, l, logindCall+"PowerOff b false")
	check(t, l.Until(ctx, "the daemon leaves it to the kubelet", func(ctx context.Context) (bool, error) {
		j, err := l.Journal(ctx)
		return strings.Contains(j, "the kubelet delays it to stop pods itself"), err
	}))
	if got := signals(t, l, "web"); len(got) > 0 {
		t.Errorf("web got %v while the kubelet was at work", got)
	}
	released := time.Now()
	sh(ctx, t, l, "touch /run/done")
	check(t, l.WaitOff(ctx))
	check(t, l.Start(ctx))
	if got := signals(t, l, "web"); len(got) != 1 || got[0].At.Before(released) {
		t.Errorf("web got %v; the kubelet was done at %v", got, released)
	}
	if r := report(ctx, t, l); r.Trigger != "shutdown" || r.outcomes()["web/main"] != "exited" {
		t.Errorf("the report says %+v", r)
	}
}
