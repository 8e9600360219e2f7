// Command bench measures quiesce against its peers and against the floor, on this machine: a short table, and
// out/bench.json. What is compared is measured in turn, round by round.
//
// BENCH_LINES (such as 1,3; default all): which groups of lines to measure.
// BENCH_QUICK=1: few rounds and few pods, to try the benchmark itself; its figures mean nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quiesce/test/bench/measure"
	"quiesce/test/node"
)

// limit is the longest that all lines together may take, once everything is built.
const limit = 25 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is what the groups share.
type bench struct {
	kit    *node.Kit
	quick  bool
	rounds int
}

// group is a set of lines that are measured together.
type group struct {
	number int
	name   string
	run    func(context.Context, *bench) ([]measure.Line, error)
}

// groups in the order of their numbers.
func groups() []group {
	return []group{
		{1, "CRI unanswered during an apply", criGap},
		{2, "last installer gone to handler usable", usable},
		{3, "pod start", podStart},
		{4, "drain", drains},
		{5, "memory and size", memory},
		{6, "install", install},
		{7, "scale", scale},
	}
}

func run(ctx context.Context) error {
	wanted, err := selected(os.Getenv("BENCH_LINES"))
	if err != nil {
		return err
	}
	b := &bench{quick: os.Getenv("BENCH_QUICK") != "", rounds: 5}
	if b.quick {
		b.rounds = 2
	}
	fmt.Println("Preparing (the first time it takes some minutes: tools and peers are built, and Debian is fetched) …")
	if b.kit, err = node.Prepare(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the benchmark's %v are over", limit))
	defer cancel()
	var lines []measure.Line
	var errs error
	for _, g := range wanted {
		began := time.Now()
		fmt.Printf("%d. %s …", g.number, g.name)
		some, err := g.run(ctx, b)
		fmt.Printf(" %.0f s\n", time.Since(began).Seconds())
		for j := range some {
			some[j].Name = fmt.Sprintf("%d %s", g.number, some[j].Name)
		}
		lines = append(lines, some...)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", g.name, err))
		}
	}
	return errors.Join(errs, b.tell(lines))
}

// selected are the groups with the numbers of a list; none is all.
func selected(list string) ([]group, error) {
	all := groups()
	if list == "" {
		return all, nil
	}
	var wanted []group
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		i := slices.IndexFunc(all, func(g group) bool { return g.number == n })
		if err != nil || i < 0 {
			return nil, fmt.Errorf("BENCH_LINES is %q: it must be numbers of groups, such as 1,3, and %q is none", list, text)
		}
		wanted = append(wanted, all[i])
	}
	return wanted, nil
}

// tell writes the report and prints the table.
func (b *bench) tell(lines []measure.Line) error {
	text, err := measure.JSON(lines)
	if err != nil {
		return err
	}
	out := filepath.Join(b.kit.Module(), "out")
	if err := errors.Join(os.MkdirAll(out, 0o755), os.WriteFile(filepath.Join(out, "bench.json"), text, 0o644)); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	fmt.Println()
	if err := measure.Table(os.Stdout, lines); err != nil {
		return err
	}
	peers(lines)
	missed, hard := 0, 0
	for _, l := range lines {
		if !l.Met() {
			missed++
			if l.Goal.Hard {
				hard++
			}
		}
	}
	fmt.Printf("\n%d lines, %d goals missed, %d of them hard. Figures are medians of interleaved rounds, with the extremes in brackets; out/bench.json has them.\n",
		len(lines), missed, hard)
	if b.quick {
		fmt.Println("This was a quick run: its figures mean nothing.")
	}
	return nil
}

// peers names who the peers are.
func peers(lines []measure.Line) {
	fmt.Println("\nPeers")
	for _, l := range lines {
		if l.PeerName != "" {
			fmt.Printf("  %s: %s\n", l.Name, l.PeerName)
		}
	}
}
