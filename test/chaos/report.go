package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
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
	Done     bool                `json:"done"`
	Count    int                 `json:"count"` // of what the part is made of
	Faults   int                 `json:"faults"`
	Findings int                 `json:"findings,omitempty"`
	Tried    []string            `json:"tried,omitempty"` // where that has no order
	Wrong    map[string][]string `json:"wrong,omitempty"` // violations, by what has to be tried again to see them gone
}

// note takes what became of one of the things that a part is made of; it may have been tried before.
func (p *progress) note(what string, wrong []string) {
	if p.Wrong == nil {
		p.Wrong = map[string][]string{}
	}
	if p.Wrong[what] = wrong; len(wrong) == 0 {
		delete(p.Wrong, what)
	}
}

// due tells whether something was not tried yet, or was wrong.
func (p *progress) due(what string) bool {
	return !slices.Contains(p.Tried, what) || len(p.Wrong[what]) > 0
}

// tried is note for what has no order.
func (p *progress) tried(what string, wrong []string) {
	if !slices.Contains(p.Tried, what) {
		p.Tried = append(p.Tried, what)
		p.Count, p.Faults = p.Count+1, p.Faults+1
	}
	p.note(what, wrong)
}

// again lists what has to be tried again.
func (p *progress) again() []string { return slices.Sorted(maps.Keys(p.Wrong)) }

func (p *progress) violations() (all []string) {
	for _, what := range p.again() {
		all = append(all, p.Wrong[what]...)
	}
	return all
}

// state is a run that may have been interrupted; the next one with its seed and mutant goes on with it. Several may go on
// with it side by side, with other parts each.
type state struct {
	Seed   uint64               `json:"seed"`
	Mutant string               `json:"mutant"`
	Parts  map[string]*progress `json:"parts"`

	out  string          // the directory
	mine map[string]bool // parts of this process
}

func (s *state) file() string { return filepath.Join(s.out, "chaos-state.json") }

// resume takes up an interrupted run: of the seed, or with no seed the last one. What it is asked for and is done already
// is begun anew, unless something was wrong.
func resume(out string, seed uint64, given bool, mutant string, mine []string) (*state, error) {
	s := &state{Seed: seed, Mutant: mutant, Parts: map[string]*progress{}, out: out, mine: map[string]bool{}}
	for _, name := range mine {
		s.mine[name] = true
	}
	old, err := s.read()
	if err != nil {
		return nil, err
	}
	if old == nil || old.Mutant != mutant || given && old.Seed != seed {
		return s, writeJSON(s.file(), s)
	}
	s.Seed, s.Parts = old.Seed, old.Parts
	if !slices.ContainsFunc(mine, func(name string) bool { return !s.part(name).clean() }) {
		for _, name := range mine {
			delete(s.Parts, name)
		}
	}
	return s, s.save()
}

// read gives the run on disk, or nil.
func (s *state) read() (*state, error) {
	b, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there need not be one
	}
	var old state
	if err = errors.Join(err, json.Unmarshal(b, &old)); err != nil {
		return nil, fmt.Errorf("resume: %w; remove %s to begin anew", err, s.file())
	}
	if old.Parts == nil {
		return nil, nil //nolint:nilnil // as above
	}
	return &old, nil
}

func (p *progress) clean() bool { return p.Done && len(p.Wrong)+p.Findings == 0 }

func (s *state) part(name string) *progress {
	if s.Parts[name] == nil {
		s.Parts[name] = &progress{}
	}
	return s.Parts[name]
}

// save writes what this process knows of its parts, beside what others have written of theirs.
func (s *state) save() error {
	lock, err := os.OpenFile(s.file()+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	others, err := s.read()
	switch {
	case err != nil:
		return err
	case others == nil || others.Seed != s.Seed || others.Mutant != s.Mutant:
		return fmt.Errorf("save: another run has begun meanwhile in %s", s.out)
	}
	for name, p := range others.Parts {
		if !s.mine[name] {
			s.Parts[name] = p
		}
	}
	return writeJSON(s.file(), s)
}

// finish forgets the run once nothing of it is left to be done.
func (s *state) finish() error {
	if s.Mutant == "" && slices.ContainsFunc(parts(), func(p part) bool { return !s.part(p.name).clean() }) {
		return nil
	}
	return errors.Join(os.Remove(s.file()), os.Remove(s.file()+".lock"))
}

// report sums up.
func (s *state) report() report {
	r := report{Violations: []string{}, Seed: s.Seed, Mutant: s.Mutant}
	for _, p := range parts() {
		got := s.part(p.name)
		r.Violations = append(r.Violations, got.violations()...)
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
			fmt.Fprintf(t, "%d\t%d\t%d\t  %s\n", got.Count, got.Faults, len(got.violations())+got.Findings, p.what)
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
