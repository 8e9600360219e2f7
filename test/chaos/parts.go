package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"quiesce/test/crash"
)

// job is one run of this program.
type job struct {
	settings settings
	state    *state
	build    []string // further arguments of go build
	mutate   bool
}

// part is one way to look for violations.
type part struct {
	name, what string
	mutants    bool // a mutant is looked for by it
	run        func(ctx context.Context, j *job, got *progress) error
}

func parts() []part {
	return []part{
		{"simulated", "histories in simulated time", true, simulated},
		{"real", "histories on real nodes", true, real},
		{"steps", "deaths and power cuts at each step of apply and of host", false, steps},
		{"calls", "failures and deaths at each system call of apply and of a drain", false, calls},
		{"storms", "storms, floods and abuse", false, storms},
		{"fuzz", "fuzz targets", false, fuzz},
	}
}

func partNames() (names []string) {
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// goTest runs tests, with more in the environment; what they print is shown, and its end is in the error.
func (j *job) goTest(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var tail bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stdout, &tail)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(tail.String()), "\n")
		return fmt.Errorf("%w: %s", err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return nil
}

// simulated has a file of its own that says how far it is.
func simulated(ctx context.Context, j *job, got *progress) error {
	goal := j.settings.simulated
	if j.mutate {
		goal = min(goal, 600)
	}
	file := filepath.Join(j.state.out, "chaos-simulated.json")
	env := []string{
		"CHAOS_STATE=" + file, "CHAOS_MUTANT=" + j.settings.mutant, "CHAOS_SIMULATED=" + strconv.Itoa(goal),
		"CHAOS_SEED=" + strconv.FormatUint(j.state.Seed, 10),
	}
	terr := j.goTest(ctx, env, append(slices.Clone(j.build), "-v", "-timeout", "3h", "-run", "TestHistories", "./plugin/internal/chaos")...)
	if ctx.Err() != nil {
		return terr
	}
	var all struct {
		Histories int
		Faults    map[string]int
		Wrong     map[string][]string
	}
	b, err := os.ReadFile(file)
	if err = errors.Join(err, json.Unmarshal(b, &all)); err != nil {
		return errors.Join(terr, err)
	}
	got.Count, got.Wrong, got.Faults = all.Histories, all.Wrong, 0
	for _, n := range all.Faults {
		got.Faults += n
	}
	if terr != nil && len(all.Wrong) == 0 {
		got.note("end", []string{"the simulated histories ended: " + terr.Error()})
	}
	if len(all.Wrong) > 0 && !j.mutate {
		return nil // they are tried again
	}
	return os.Remove(file)
}

// real goes on after the histories that are done.
func real(ctx context.Context, j *job, got *progress) error {
	goal := j.settings.real
	if j.mutate {
		goal = min(goal, 24)
	}
	h := crash.Histories{
		Seed: j.state.Seed, First: got.Count, Goal: goal, Benches: j.settings.nodes, Build: j.build, FirstOnly: j.mutate, Say: say,
	}
	for _, name := range got.again() {
		number, err := strconv.Atoi(name)
		if err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		h.Again = append(h.Again, number)
	}
	h.Note = func(p crash.Played) error {
		if !slices.Contains(h.Again, p.Number) {
			got.Count, got.Faults = got.Count+1, got.Faults+p.Faults
		}
		got.note(strconv.Itoa(p.Number), p.Wrong)
		return j.state.save()
	}
	return h.Run(ctx)
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// steps is the whole matrix, on real nodes and, at each change of a file, on files in memory.
func steps(ctx context.Context, j *job, got *progress) error {
	for _, pkg := range []string{"./plugin/internal/apply", "./installer/internal/host"} {
		if !got.due(pkg) {
			continue
		}
		err := j.goTest(ctx, []string{"CHAOS=all"}, "-timeout", "60m", "-run", "Crash", pkg)
		if ctx.Err() != nil {
			return err
		}
		got.tried(pkg, saidBy("crash tests", err))
		if err := j.state.save(); err != nil {
			return err
		}
	}
	plan := crash.Plan{
		Seed: j.state.Seed, Whole: true, Files: j.settings.files, Benches: j.settings.nodes, Say: say,
		Skip: func(c crash.Case) bool { return !got.due(c.Key()) },
		Note: func(o crash.Outcome, err error) error {
			var wrong []string
			for _, w := range o.Wrong {
				wrong = append(wrong, fmt.Sprintf("%v at %q: %s", o.Case, o.At, w))
			}
			if err != nil {
				wrong = append(wrong, "fault of a node: "+err.Error())
			}
			got.tried(o.Case.Key(), wrong)
			return j.state.save()
		},
	}
	_, err := plan.Run(ctx)
	return err
}

// saidBy makes a violation of the end of a test.
func saidBy(test string, err error) []string {
	if err == nil {
		return nil
	}
	return []string{test + ": " + err.Error()}
}

// calls is a pass over all system calls.
func calls(ctx context.Context, j *job, got *progress) error {
	c := crash.Calls{
		First: got.Count, Again: got.again(), Every: j.settings.every, Other: max(1, 100/j.settings.every), Benches: j.settings.nodes, Say: say,
	}
	c.Note = func(done crash.Called) error {
		if !slices.Contains(c.Again, done.Key()) {
			got.Count++
			if done.Name >= 0 {
				got.Faults++
			}
		}
		var wrong []string
		for _, w := range done.Wrong {
			wrong = append(wrong, fmt.Sprintf("%v: %s", done, w))
		}
		got.note(done.Key(), wrong)
		return j.state.save()
	}
	return c.Run(ctx)
}

// target is a fuzz target.
type target struct{ name, pkg string }

func targets() []target {
	return []target{
		{"FuzzChange", "./plugin/internal/containerd/config"},
		{"FuzzChangeLegacy", "./plugin/internal/containerd/config"},
		{"FuzzParseManifest", "./plugin/stage"},
		{"FuzzRequest", "./plugin/internal/control"},
		{"FuzzAnnotations", "./plugin/internal/drain"},
		{"FuzzConfig", "./plugin"},
		{"FuzzFind", "./plugin/internal/freeze"},
	}
}

// timeIsUp is what go test may say when the time of fuzzing is over, as if the target had failed: golang/go#75804, mended in
// Go 1.27. A finding says more.
var timeIsUp = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \([\d.]+s\)\n    context deadline exceeded\nFAIL$`)

// fuzz goes on with the target after those that are done. What it finds go test puts into testdata/fuzz of the package.
func fuzz(ctx context.Context, j *job, got *progress) error {
	wanted, err := regexp.Compile(j.settings.targets)
	if err != nil {
		return fmt.Errorf("read targets: %w", err)
	}
	all := slices.DeleteFunc(targets(), func(t target) bool { return !wanted.MatchString(t.name) })
	for _, t := range all[min(got.Count, len(all)):] {
		err := j.goTest(ctx, nil, "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", j.settings.fuzz, "-fuzzminimizetime", "50x", "-timeout", "0", t.pkg)
		if err != nil && timeIsUp.MatchString(err.Error()) {
			err = j.goTest(ctx, nil, "-run", "^"+t.name+"$", t.pkg) // an input that fails would have been kept, and fails again
		}
		if ctx.Err() != nil {
			return err
		}
		if got.Count++; err != nil {
			got.Findings++
			fmt.Printf("FOUND: %s: %v\n", t.name, err)
		}
		if err := j.state.save(); err != nil {
			return err
		}
	}
	return nil
}

// storms are tests that also run in `make test`, but longer.
func storms(ctx context.Context, j *job, got *progress) error {
	err := j.goTest(ctx, []string{"CHAOS=all"}, "-timeout", "60m", "-run", "TestChaos_", "./test/fault")
	if ctx.Err() != nil {
		return err
	}
	got.Count = 1
	got.note("storms", saidBy("storms", err))
	return nil
}
