package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"quiesce/test/bench/measure"
)

// figures are the results of go benchmarks: name → unit → samples.
type figures map[string]map[string]measure.Series

// goBenchmark runs the benchmarks of a package that match a pattern, all of them once a round.
func (b *bench) goBenchmark(ctx context.Context, rounds int, pkg, pattern, benchtime string) (figures, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, fmt.Errorf("benchmark %s: %w", pkg, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "bench.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, pkg)
	build.Dir = b.kit.Module()
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build benchmarks of %s: %w\n%s", pkg, err, out)
	}
	all := figures{}
	for range rounds {
		cmd := exec.CommandContext(ctx, program, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+benchtime)
		cmd.Dir = filepath.Join(b.kit.Module(), pkg)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("benchmark %s: %w\n%s", pkg, err, out)
		}
		all.read(string(out))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("benchmark %s: nothing matches %s", pkg, pattern)
	}
	return all, nil
}

// result is a line of a go benchmark's output: name, GOMAXPROCS, count, then value and unit in turn.
var result = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)

func (f figures) read(out string) {
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		m := result.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		fields := strings.Fields(m[2])
		for i := 0; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				continue
			}
			if f[m[1]] == nil {
				f[m[1]] = map[string]measure.Series{}
			}
			f[m[1]][fields[i+1]] = append(f[m[1]][fields[i+1]], v)
		}
	}
}

// ms are the times of a benchmark in milliseconds.
func (f figures) ms(name string) measure.Series { return scaled(f[name]["ns/op"], 1e-6) }

func scaled(s measure.Series, by float64) measure.Series {
	out := make(measure.Series, len(s))
	for i, v := range s {
		out[i] = v * by
	}
	return out
}

// growth is, round by round, how many times longer the larger size takes.
func (f figures) growth(small, large string) measure.Series {
	a, b := f.ms(small), f.ms(large)
	var out measure.Series
	for i := range min(len(a), len(b)) {
		out = append(out, b[i]/a[i])
	}
	return out
}
