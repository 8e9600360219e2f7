package drain

import (
	"context"
	"strings"
	"testing"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// delay is a configuration of logind: how long it waits for those who delay a shutdown.
func delay(limit string) node.Config {
	return node.Config{Files: map[string]node.File{
		"/etc/systemd/logind.conf.d/zz-test.conf": {Content: "[Login]\nInhibitDelayMaxSec=" + limit + "\n"},
	}}
}

const logindCall = "busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager "

// delayed waits until the daemon delays shutdowns.
func delayed(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	check(t, l.Until(ctx, "the daemon delays shutdowns", func(ctx context.Context) (bool, error) {
		out, err := script(ctx, l, logindCall+"ListInhibitors")
		return err == nil && strings.Contains(out, `"quiesce" "stop pods in order" "delay"`), nil
	}))
}

// TestDrain_Cancel has logind announce a shutdown that it then cannot do: logind itself says that it is off, in the
// middle of the drain or after it. Everything comes back, and the next shutdown drains.
func TestDrain_Cancel(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{"in the middle": "5", "after the drain": "120"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, l, k := setup(t, lab.Options{Name: "drain-cancel", Node: delay(limit)})
			middle := name == "in the middle"
			after := "3s"
			if middle {
				after = "20s"
			}
			web, dns, net := Victim("default", "web", 30, "-after", "200ms"), Victim("kube-system", "dns", 60, "-after", after), Victim("kube-system", "net", 30)
			net.Containers[0].Mounts["/opt/cni/bin"] = "/cni"
			sh(ctx, t, l, "mkdir -p /opt/cni/bin")
			pods := []Pod{web, dns, net}
			check(t, k.Start(ctx, pods...))
			started(ctx, t, l, names(pods)...)
			delayed(ctx, t, l)
			sh(ctx, t, l, logindCall+"PowerOff b false; systemctl mask --runtime poweroff.target")
			check(t, l.Until(ctx, "the daemon hears that it is off", func(ctx context.Context) (bool, error) {
				j, err := l.Journal(ctx)
				return strings.Contains(j, "the shutdown was cancelled"), err
			}))
			want := map[bool]int{true: 0, false: 1}[middle]
			if got := signals(t, l, "net"); len(got) != want || len(signals(t, l, "web")) != 1 {
				t.Errorf("net got %v", got)
			}
			check(t, l.Until(ctx, "the drain is over", func(ctx context.Context) (bool, error) { return report(ctx, t, l).Phase == "ended", nil }))
			check(t, l.Until(ctx, "the fence is down", func(ctx context.Context) (bool, error) {
				s, err := l.Quiesce(ctx, "status")
				return !strings.Contains(s, "fence up"), err
			}))
			check(t, l.Until(ctx, "dns has ended", func(ctx context.Context) (bool, error) {
				all, err := Events(l, "dns")
				return err == nil && all[len(all)-1].What == "exit", err
			}))
			sh(ctx, t, l, "systemctl unmask --runtime poweroff.target; rm -f "+Evidence+"/web "+Evidence+"/dns")
			for _, p := range pods {
				check(t, k.sync(ctx, p))
			}
			started(ctx, t, l, "web", "dns")
			delayed(ctx, t, l)
			check(t, l.Shutdown(ctx))
			for _, p := range []string{"web", "dns"} {
				if got := signals(t, l, p); len(got) != 1 {
					t.Errorf("the shutdown signalled %s %d times", p, len(got))
				}
			}
			if got := signals(t, l, "net"); len(got) != want+1 {
				t.Errorf("net got %v", got)
			}
		})
	}
}
