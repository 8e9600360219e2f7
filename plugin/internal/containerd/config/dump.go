package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errorLines of containerd's output go into an error.
const errorLines = 5

// dumper asks a containerd binary what it makes of a config.
type dumper struct {
	binary string
	dir    string // working directory, HOME and TMPDIR of the child
	none   string // what a file that is not there says, for a containerd that dumps nothing without one: before 2.0; empty: nothing
}

// tree runs `containerd config dump`. Which tables a config has after all migrations only the node's own containerd
// knows: they are in its plugins and differ from release to release. The dump loads the files and prints; it opens
// neither the daemon's root or state directory nor its socket.
func (d dumper) tree(ctx context.Context, path string) (map[string]any, error) {
	if _, err := os.Stat(path); d.none != "" && errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(d.dir, "none.toml")
		if err := os.WriteFile(path, []byte(d.none), 0o600); err != nil { //nolint:forbidigo // in our own temporary directory
			return nil, fmt.Errorf("write empty config: %w", err)
		}
	}
	var out bytes.Buffer
	if err := d.run(ctx, &out, "--config", path, "config", "dump"); err != nil {
		return nil, err
	}
	tree, err := decode("output of "+d.binary+" config dump", out.Bytes())
	if err != nil {
		return nil, err
	}
	if _, ok := tree["version"]; !ok {
		return nil, fmt.Errorf("run %s config dump: the output has no version", d.binary)
	}
	return tree, nil
}

// run starts the node's containerd: the only child process of the project.
func (d dumper) run(ctx context.Context, out *bytes.Buffer, args ...string) error {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, d.binary, args...) //nolint:gosec // the operator's own containerd
	cmd.Dir = d.dir
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + d.dir, "TMPDIR=" + d.dir, "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("run %s %s: %w%s", d.binary, strings.Join(args[max(0, len(args)-2):], " "), err, lastLines(errs.String()))
	}
	return nil
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if lines[0] == "" {
		return ""
	}
	return ": " + strings.Join(lines[max(0, len(lines)-errorLines):], "; ")
}
