// Command gotest runs go test, keeps its JSON in a file, and prints what go test prints without -v: package lines, and
// the output of tests that failed.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// own is a line of testing.T's.
var own = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

func main() {
	file := flag.String("json-file", "out/test.json", "where the JSON goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *file, flag.Args()); err != nil {
		if _, failed := errors.AsType[*exec.ExitError](err); !failed {
			fmt.Fprintln(os.Stderr, "gotest:", err)
		}
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, file string, args []string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("create JSON file: %w", err)
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	show(io.TeeReader(pipe, out), os.Stdout)
	return cmd.Wait()
}

type event struct {
	Action, Package, Test, Output string
}

// show prints package output as it comes, and a test's output once it has failed.
func show(r io.Reader, w io.Writer) {
	held := map[string]*strings.Builder{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(w, lines.Text())
			continue
		}
		top, _, _ := strings.Cut(e.Test, "/")
		key := e.Package + "\x00" + top
		switch {
		case e.Action == "output" && e.Test == "" && e.Output != "PASS\n" && !strings.HasPrefix(e.Output, "-test.shuffle"):
			fmt.Fprint(w, e.Output)
		case e.Action == "output" && e.Test != "":
			if held[key] == nil {
				held[key] = &strings.Builder{}
			}
			held[key].WriteString(e.Output)
		case e.Action == "fail" && e.Test != "" && e.Test == top && held[key] != nil:
			fmt.Fprint(w, held[key].String(), said(held[key].String()))
			delete(held, key)
		case e.Action == "build-output":
			fmt.Fprint(w, e.Output)
		}
	}
}

// said repeats in short what a failed test said itself: a journal may have come after it.
func said(output string) string {
	var short strings.Builder
	for line := range strings.Lines(output) {
		if own.MatchString(line) {
			fmt.Fprintf(&short, "    %.300s\n", strings.TrimSpace(line))
		}
	}
	return short.String()
}
