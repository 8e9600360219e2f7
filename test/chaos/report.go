package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// report is out/chaos.json.
type report struct {
	Real       int      `json:"histories_real"`
	Simulated  int      `json:"histories_simulated"`
	Violations []string `json:"violations"`
	Faults     int      `json:"faults_injected"`
	Findings   int      `json:"fuzz_findings"`
	Seed       uint64   `json:"seed"`
	Mutant     string   `json:"mutant"`
}

// progress is what a part has done so far.
type progress struct {
	Done       bool     `json:"done"`
	Count      int      `json:"count"` // of what the part is made of
	Faults     int      `json:"faults"`
	Findings   int      `json:"findings,omitempty"`
	Violations []string `json:"violations,omitempty"`
}

// state is a run that may have been interrupted; the next one with its seed and mutant goes on with it.
type state struct {
	Seed   uint64               `json:"seed"`
	Mutant string               `json:"mutant"`
	Parts  map[string]*progress `json:"parts"`

	out string // the directory
}

func (s *state) file() string { return filepath.Join(s.out, "chaos-state.json") }

// resume takes up an interrupted run: of the seed, or with no seed the last one.
func resume(out string, seed uint64, given bool, mutant string) (*state, error) {
	fresh := &state{Seed: seed, Mutant: mutant, Parts: map[string]*progress{}, out: out}
	b, err := os.ReadFile(fresh.file())
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	old := &state{out: out}
	if err = errors.Join(err, json.Unmarshal(b, old)); err != nil {
		return nil, fmt.Errorf("resume: %w; remove %s to begin anew", err, fresh.file())
	}
	if old.Mutant != mutant || given && old.Seed != seed || old.Parts == nil {
		return fresh, nil
	}
	return old, nil
}

func (s *state) part(name string) *progress {
	if s.Parts[name] == nil {
		s.Parts[name] = &progress{}
	}
	return s.Parts[name]
}

func (s *state) save() error { return writeJSON(s.file(), s) }

// report sums up.
func (s *state) report() report {
	r := report{Violations: []string{}, Seed: s.Seed, Mutant: s.Mutant}
	for _, p := range parts() {
		got := s.part(p.name)
		r.Violations = append(r.Violations, got.Violations...)
		r.Faults += got.Faults
		r.Findings += got.Findings
	}
	r.Real, r.Simulated = s.part("real").Count, s.part("simulated").Count
	return r
}

// table is the report for people.
func (s *state) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "count\tfaults\tviolations\t  part")
	for _, p := range parts() {
		if got := s.part(p.name); got.Done || got.Count > 0 {
			fmt.Fprintf(t, "%d\t%d\t%d\t  %s\n", got.Count, got.Faults, len(got.Violations)+got.Findings, p.what)
		}
	}
	fmt.Fprintf(t, "\t\t\t  seed %d", s.Seed)
	if s.Mutant != "" {
		fmt.Fprintf(t, ", mutant %s", s.Mutant)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

func writeJSON(file string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file+".tmp", append(b, '\n'), 0o644), os.Rename(file+".tmp", file))
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
