// Package hook runs the operator's programs around a drain.
//
// A hook runs as root, so only what root alone can write is run. Each is a systemd service of its own: its time limit ends
// it with everything it started, and whoever drains (ExecStop, the daemon in its sandbox, an operator) makes no difference.
package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/systemd"
)

// Runner runs hooks. The zero value is ready.
type Runner struct{}

// Call is part of drain.NodeHooks.
func (Runner) Call(ctx context.Context, c drain.HookCall) (string, error) {
	if err := Check(c.Hook.Path); err != nil {
		return "", err
	}
	out := &tail{}
	p := systemd.Program{
		Unit:        fmt.Sprintf("quiesce-hook-%s-%d.service", c.Drain, c.N),
		Description: fmt.Sprintf("quiesce: hook %s %s", c.Hook.When, c.Hook.Path),
		Argv:        []string{c.Hook.Path}, Env: environment(c), Limit: c.Limit,
	}
	err := p.Run(ctx, out)
	return out.String(), err
}

// environment is what a hook is told, besides what systemd gives every service.
func environment(c drain.HookCall) []string {
	env := []string{
		"QUIESCE_HOOK=" + string(c.Hook.When), "QUIESCE_DRAIN=" + c.Drain, "QUIESCE_REASON=" + c.Reason, "QUIESCE_PODS=" + c.Selection,
		"QUIESCE_DEADLINE=" + c.Deadline.UTC().Format(time.RFC3339), fmt.Sprintf("QUIESCE_TIMEOUT=%d", int(c.Limit.Seconds())),
	}
	if c.Tier != "" {
		env = append(env, "QUIESCE_TIER="+c.Tier)
	}
	return env
}

// Check says why a program is not run as a hook: it, or a directory on the way to it, is not root's alone.
func Check(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("refuse hook %s: %w", path, err)
	}
	for at := real; ; at = filepath.Dir(at) {
		fi, err := os.Lstat(at)
		if err != nil {
			return fmt.Errorf("refuse hook %s: %w", path, err)
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		switch {
		case at == real && (!fi.Mode().IsRegular() || fi.Mode().Perm()&0o100 == 0):
			return fmt.Errorf("refuse hook %s: %s is no executable file", path, at)
		case !ok || st.Uid != 0:
			return fmt.Errorf("refuse hook %s: %s is not root's; chown root it", path, at)
		case fi.Mode().Perm()&0o022 != 0:
			return fmt.Errorf("refuse hook %s: others than root may write to %s (mode %04o); chmod go-w it", path, at, fi.Mode().Perm())
		}
		if at == "/" {
			return nil
		}
	}
}

// kept is how much of a hook's output is kept, in bytes: the end of it.
const kept = 4096

type tail struct {
	b       []byte
	dropped int
}

// Write is part of io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - kept; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
		t.dropped += over
	}
	return len(p), nil
}

// String is the output, and how much is missing before it.
func (t *tail) String() string {
	s := strings.ToValidUTF8(string(t.b), "\uFFFD")
	if t.dropped > 0 {
		s = fmt.Sprintf("(%d bytes dropped) %s", t.dropped, s)
	}
	return s
}
