package drain

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestDrain_g ends the services in every way there is. Pods write their last words to a pod of the network tier.
func TestDrain_g(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		systemd bool
		end     func(ctx context.Context, l *lab.Lab) error
	}{
		"poweroff, systemd cgroups": {true, func(ctx context.Context, l *lab.Lab) error { return l.Shutdown(ctx) }},
		"poweroff, cgroupfs":        {false, func(ctx context.Context, l *lab.Lab) error { return l.Shutdown(ctx) }},
		"reboot, systemd cgroups": {true, func(ctx context.Context, l *lab.Lab) error {
			_, _ = l.Exec(ctx, "systemctl", "--no-block", "reboot") // may be killed before it can answer
			return l.WaitOff(ctx)
		}},
		"logind, systemd cgroups": {true, func(ctx context.Context, l *lab.Lab) error {
			if _, err := l.Exec(ctx, "busctl", "call", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PowerOff", "b", "false"); err != nil {
				return err
			}
			return l.WaitOff(ctx)
		}},
		"stop of the runtime": {true, func(ctx context.Context, l *lab.Lab) error {
			_, err := l.Exec(ctx, "systemctl", "stop", "containerd")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, l, k := setup(t, lab.Options{Name: "drain-g", Node: node.Config{SystemdCgroup: tc.systemd}})
			sh(ctx, t, l, "mkdir -p /opt/cni/bin")
			net := Victim("kube-system", "net", 10, "-listen", "10.99.0.1:9000", "-after", "100ms")
			net.HostNetwork = true
			net.Containers[0].Mounts["/opt/cni/bin"] = "/cni"
			web := Victim("default", "web", 20, "-after", "1500ms", "-peer", "10.99.0.1:9000")
			shared := Victim("default", "shared", 20, "-after", "1500ms", "-peer", "10.99.0.1:9000")
			shared.SharedPID = true
			check(t, k.Start(ctx, net, web))
			sh(ctx, t, l, "systemctl daemon-reload")
			check(t, k.Start(ctx, shared))
			started(ctx, t, l, "net", "web", "shared")
			if tc.systemd {
				scopes(ctx, t, l)
			}
			check(t, l.Until(ctx, "the daemon delays shutdowns", func(ctx context.Context) (bool, error) {
				out, err := l.Exec(ctx, "busctl", "call", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "ListInhibitors")
				return err == nil && strings.Contains(out, `"quiesce" "stop pods in order" "delay"`), nil
			}))
			check(t, tc.end(ctx, l))
			checkLastWords(t, l)
			if strings.HasPrefix(name, "stop") {
				return
			}
			if journal, err := l.Journal(ctx); strings.HasPrefix(name, "logind") && (err != nil || !strings.Contains(journal, "a shutdown begins")) {
				t.Errorf("logind's word was not heard: %v", err)
			}
			check(t, l.Start(ctx))
			r := report(ctx, t, l)
			if got := r.outcomes(); got["web/main"] != "exited" || got["shared/main"] != "exited" || got["net/main"] != "exited" || r.Trigger != "shutdown" || r.Phase != "ended" {
				t.Errorf("the report after the boot: %+v", r)
			}
		})
	}
}

// checkLastWords expects each pod to have been asked once, to have had its time, and to have been heard.
func checkLastWords(t *testing.T, l *lab.Lab) {
	t.Helper()
	var netSignal, lastExit time.Time
	for _, p := range []string{"web", "shared", "net"} {
		if n := len(signals(t, l, p)); n != 1 {
			t.Fatalf("%s got %d signals", p, n)
		}
		all, err := Events(l, p)
		check(t, err)
		end := all[len(all)-1]
		if end.What != "exit" {
			t.Errorf("%s did not end by itself: %+v", p, all)
		}
		for _, e := range all {
			if e.Err != "" {
				t.Errorf("%s: %s: %s", p, e.What, e.Err)
			}
		}
		if p == "net" {
			netSignal = signals(t, l, p)[0].At
		} else if end.At.After(lastExit) {
			lastExit = end.At
		}
	}
	if netSignal.Before(lastExit) {
		t.Errorf("net was signalled at %v, the last pod ended at %v", netSignal, lastExit)
	}
}

// scopes expects every scope to be ordered before the drain, and containers to have their stop timeout.
func scopes(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	out := sh(ctx, t, l, "systemctl list-units --plain --no-legend 'cri-containerd-*.scope' | awk '{print $1}'")
	with, n := 0, 0
	for unit := range strings.FieldsSeq(out) {
		n++
		p := sh(ctx, t, l, "systemctl show -p Before -p TimeoutStopUSec "+unit)
		if !strings.Contains(p, "quiesce-drain.service") {
			t.Errorf("%s: %s", unit, p)
		}
		if strings.Contains(p, "TimeoutStopUSec=25s") || strings.Contains(p, "TimeoutStopUSec=15s") {
			with++
		}
	}
	if n != 6 || with != 3 {
		t.Errorf("%d scopes, %d of them with their pod's timeout; want 6 and 3", n, with)
	}
}

// TestDrain_h kills the daemon, containerd, both and the drain itself in the middle of it.
func TestDrain_h(t *testing.T) {
	t.Parallel()
	const middle = "sleep 1.5; "
	for name, tc := range map[string]struct {
		script string
		want   string
	}{
		"the daemon":      {middle + "systemctl kill -s KILL quiesce; wait", "exited"},
		"containerd":      {middle + "systemctl kill -s KILL --kill-who=main containerd; wait", "exited, code lost"},
		"both":            {middle + "systemctl kill -s KILL quiesce; systemctl kill -s KILL --kill-who=main containerd; wait", "exited, code lost"},
		"the drain's own": {"", "exited"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, l, k := setup(t, lab.Options{Name: "drain-h"})
			web := Victim("default", "web", 20, "-after", "4s", "-code", "7")
			deaf := Victim("default", "deaf", 6, "-deaf")
			usr := Victim("kube-system", "usr", 10, "-after", "200ms")
			usr.Containers[0].StopSignal = "SIGUSR1"
			check(t, k.Start(ctx, web, deaf, usr))
			started(ctx, t, l, "web", "deaf", "usr")
			if tc.script == "" {
				sh(ctx, t, l, "/opt/quiesce/bin/quiesce drain --all --yes >/dev/null 2>&1 & p=$!; "+middle+"kill -KILL $p; /opt/quiesce/bin/quiesce drain --all --yes")
			} else {
				sh(ctx, t, l, "systemctl stop containerd & "+tc.script)
			}
			check(t, l.Until(ctx, "the drain is over", func(ctx context.Context) (bool, error) { return report(ctx, t, l).Phase != "draining", nil }))
			for _, p := range []string{"web", "deaf", "usr"} {
				if got := signals(t, l, p); len(got) != 1 {
					t.Errorf("%s got %v", p, got)
				}
			}
			if got := signals(t, l, "usr"); len(got) == 1 && got[0].What != "user defined signal 1" {
				t.Errorf("usr got %v", got)
			}
			if left := sh(ctx, t, l, "pgrep -x victim || true"); left != "" {
				t.Errorf("left: %s", left)
			}
			r := report(ctx, t, l)
			got := r.outcomes()
			if got["web/main"] != tc.want || got["usr/main"] != tc.want || got["deaf/main"] != "killed at deadline" || r.Phase != "drained" {
				table, _ := l.Quiesce(ctx, "report")
				t.Errorf("%s %v\n%s", r.Phase, got, table)
			}
			if tc.want != "exited" {
				sh(ctx, t, l, "systemctl start containerd")
				check(t, l.WaitCRI(ctx))
				check(t, k.sync(ctx, web))
			}
		})
	}
}
