package drain

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"quiesce/test/lab"
)

// hookScript writes what it is told and when, after the last event of the victim web.
const hookScript = `#!/bin/sh
echo "$QUIESCE_HOOK $QUIESCE_TIER|$QUIESCE_REASON|$(date +%s.%N)|$(tail -n1 /var/lib/evidence/web)" >>/var/lib/evidence/hooks
echo "$QUIESCE_HOOK was here"
`

// hangScript leaves a child in a session of its own, and a lot of output.
const hangScript = `#!/bin/sh
head -c 1000000 /dev/zero | tr '\0' x
echo last words
setsid sleep 4711 &
exec sleep 4712
`

func hookConfig(entries ...string) string { return "[drain]\n" + strings.Join(entries, "\n") }

func hookEntry(when, path string, more ...string) string {
	return "[[drain.hook]]\nwhen = '" + when + "'\npath = '" + path + "'\n" + strings.Join(more, "\n")
}

// TestDrain_Hooks runs the operator's programs around an operator's drain and around a poweroff.
func TestDrain_Hooks(t *testing.T) {
	t.Parallel()
	note, hang := "/etc/quiesce/hooks/note", "/etc/quiesce/hooks/hang"
	ctx, l, k := setup(t, lab.Options{Name: "drain-hooks", Config: hookConfig(
		hookEntry("pre-drain", note), hookEntry("pre-tier", note, "tier = 'kube-system'"), hookEntry("post-tier", note, "tier = 'workloads'"),
		hookEntry("post-drain", note), hookEntry("post-start", note), hookEntry("pre-drain", hang, "timeout = '1s'"),
		hookEntry("pre-drain", "/etc/quiesce/hooks/anyone"), hookEntry("pre-drain", "/etc/quiesce/hooks/three"),
	)})
	sh(ctx, t, l, "mkdir -p /etc/quiesce/hooks /var/lib/evidence")
	for name, script := range map[string]string{"note": hookScript, "hang": hangScript, "anyone": hookScript, "three": "#!/bin/sh\nexit 3\n"} {
		check(t, l.WriteFile("/etc/quiesce/hooks/"+name, []byte(script), 0o755))
	}
	sh(ctx, t, l, "chmod 775 /etc/quiesce/hooks/anyone")
	check(t, k.Start(ctx, Victim("default", "web", 10, "-after", "300ms"), Victim("kube-system", "dns", 10)))
	started(ctx, t, l, "web", "dns")
	_, err := l.Quiesce(ctx, "drain", "--all", "--yes")
	check(t, err)
	if left := sh(ctx, t, l, "pgrep -f 'sleep 471[12]' || true"); left != "" {
		t.Errorf("of the hook that hangs there still run: %s", left)
	}
	table, err := l.Quiesce(ctx, "report")
	check(t, err)
	t.Logf("\n%s", table)
	for _, want := range []string{"killed at its time limit", "last words", "chmod go-w", "exit code 3", "post-drain was here"} {
		if !strings.Contains(table, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if len(table) > 20_000 {
		t.Errorf("the report has %d bytes", len(table))
	}
	_, err = l.Quiesce(ctx, "resume")
	check(t, err)
	checkHooks(t, sh(ctx, t, l, "cat /var/lib/evidence/hooks"), "drain by an operator",
		"pre-drain ", "start", "post-tier workloads", "exit", "pre-tier kube-system", "exit", "post-drain ", "exit", "post-start ", "exit")
	if left := sh(ctx, t, l, "systemctl list-units --all --no-legend 'quiesce-hook-*'"); left != "" {
		t.Errorf("units are left: %s", left)
	}
	sh(ctx, t, l, "rm /var/lib/evidence/*")
	check(t, k.Start(ctx, Victim("default", "web", 10, "-after", "300ms")))
	started(ctx, t, l, "web")
	check(t, l.Shutdown(ctx))
	check(t, l.Start(ctx))
	check(t, l.Until(ctx, "the hook after the start has run", func(context.Context) (bool, error) {
		b, err := l.ReadFile("/var/lib/evidence/hooks")
		return strings.Contains(string(b), "post-start"), err
	}))
	checkHooks(t, sh(ctx, t, l, "cat /var/lib/evidence/hooks"), "shutdown",
		"pre-drain ", "start", "post-tier workloads", "exit", "post-drain ", "exit", "post-start ", "exit")
}

// checkHooks compares moments, and what the victim had done by then, in turn.
func checkHooks(t *testing.T, evidence, reason string, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(evidence), "\n")
	if len(lines) != len(want)/2 {
		t.Fatalf("got %d calls, want %d:\n%s", len(lines), len(want)/2, evidence)
	}
	for i, line := range lines {
		f := strings.SplitN(line, "|", 4)
		var e Event
		check(t, json.Unmarshal([]byte(f[3]), &e))
		if f[0] != want[2*i] || f[1] != reason || e.What != want[2*i+1] {
			t.Errorf("call %d: %q for %q after %q, want %q for %q after %q", i+1, f[0], f[1], e.What, want[2*i], reason, want[2*i+1])
		}
	}
}
