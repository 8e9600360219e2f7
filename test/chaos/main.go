// Command chaos looks for a promise of quiesce that does not hold: random histories in simulated time and on real nodes,
// SIGKILL, power cuts and failing system calls at every step, fuzzing, floods. It writes out/chaos.json and fails if
// anything is wrong. With -mutant it breaks a promise itself (package mutant), and fails if nothing is wrong then.
//
// A run that was interrupted goes on where it was (out/chaos-state.json), and tries what went wrong again first: after a fix
// the rest need not be repeated. The seed, printed first, gives the same again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"quiesce/test/mutant"
)

// settings are the flags.
type settings struct {
	simulated, real, files, nodes, every int
	fuzz                                 string // time of each target
	targets                              string
	mutant, parts, out                   string
}

func main() {
	var s settings
	flag.IntVar(&s.simulated, "simulated", number("CHAOS_SIMULATED", 10000), "how many `histories` in simulated time")
	flag.IntVar(&s.real, "real", number("CHAOS_REAL", 150), "how many `histories` on real nodes")
	flag.IntVar(&s.files, "files", 60, "how many crashes at changes of files, on real nodes, beside those at every step")
	flag.IntVar(&s.nodes, "nodes", 3, "how many nodes side by side")
	flag.IntVar(&s.every, "every", number("CHAOS_CALLS_EVERY", 1), "only each `N`th system call that changes something")
	flag.StringVar(&s.fuzz, "fuzztime", text("FUZZTIME", "10m"), "how long to fuzz each target")
	flag.StringVar(&s.targets, "targets", text("FUZZ", "."), "fuzz only targets that match the `pattern`")
	flag.StringVar(&s.mutant, "mutant", os.Getenv("MUTANT"), "a promise to break: "+strings.Join(mutant.Names(), ", "))
	flag.StringVar(&s.parts, "parts", text("CHAOS_PARTS", ""), "only these, with commas between: "+strings.Join(partNames(), ", "))
	flag.StringVar(&s.out, "out", "out", "the `directory` of chaos.json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func number(name string, or int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return or
}

func text(name, or string) string {
	if s := os.Getenv(name); s != "" {
		return s
	}
	return or
}

func run(ctx context.Context, s settings) error {
	module, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return fmt.Errorf("run this in the root of the module: %w", err)
	}
	out, err := filepath.Abs(s.out)
	if err != nil {
		return err
	}
	j := &job{settings: s}
	if s.mutant != "" {
		j.mutate = true
		flag, err := mutant.Flag(module, out, s.mutant)
		if err != nil {
			return err
		}
		j.build = []string{flag}
	}
	seed, serr := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64)
	if serr != nil {
		seed = rand.Uint64() >> 1
	}
	if j.state, err = resume(out, seed, serr == nil, s.mutant, j.names()); err != nil {
		return err
	}
	fmt.Printf("CHAOS_SEED=%d\n", j.state.Seed)
	if err := j.all(ctx); err != nil {
		return err
	}
	return j.end(filepath.Join(out, "chaos.json"))
}

// names lists the parts of this process.
func (j *job) names() (names []string) {
	asked := strings.Split(j.settings.parts, ",")
	for _, p := range parts() {
		if j.settings.parts != "" && slices.Contains(asked, p.name) || j.settings.parts == "" && (p.mutants || !j.mutate) {
			names = append(names, p.name)
		}
	}
	return names
}

// all does the parts that are not done yet, or not well.
func (j *job) all(ctx context.Context) error {
	for _, p := range parts() {
		got := j.state.part(p.name)
		if !j.state.mine[p.name] || got.clean() {
			continue
		}
		fmt.Printf("== %s\n", p.what)
		err := p.run(ctx, j, got)
		got.Done = err == nil
		if err = errors.Join(err, j.state.save()); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
	}
	return nil
}

// end tells what was found.
func (j *job) end(file string) error {
	rep := j.state.report()
	if err := errors.Join(writeJSON(file, rep), j.state.finish()); err != nil {
		return err
	}
	for _, v := range rep.Violations {
		fmt.Println("VIOLATION:", v)
	}
	if err := j.state.table(os.Stdout); err != nil {
		return err
	}
	found := len(rep.Violations) + rep.Findings
	switch {
	case j.mutate && found == 0:
		return fmt.Errorf("mutant %s was not noticed", rep.Mutant)
	case !j.mutate && found > 0:
		return fmt.Errorf("%d violations; CHAOS_SEED=%d gives them again", found, rep.Seed)
	}
	return nil
}
