package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"quiesce/test/node"
)

// totals is out/matrix.json.
type totals struct {
	Files    int      `json:"files"`
	Versions []string `json:"versions"`
	Accepted int      `json:"accepted_by_containerd"` // file × version pairs whose config dump succeeds before
	Cells    int      `json:"cells"`                  // file × version × operation
	Added    int      `json:"added_exactly"`          // add 1, add 3 and change
	Restored int      `json:"restored_exactly"`       // remove
	Refused  int      `json:"refused_with_reason"`
	Misses   int      `json:"silent_misses"`
}

func count(files []file, cells []*cell) totals {
	t := totals{Files: len(files), Versions: node.Matrix(), Cells: len(cells)}
	for _, c := range cells {
		t.add(c)
	}
	return t
}

func (t *totals) add(c *cell) {
	if c.accepted && c.operation == operations[0] {
		t.Accepted++
	}
	switch c.verdict {
	case added:
		t.Added++
	case restored:
		t.Restored++
	case refused:
		t.Refused++
	case missed:
		t.Misses++
	}
}

// print shows a line for each containerd, then every config that containerd takes and quiesce does not, then the misses.
func (t *totals) print(w io.Writer, cells []*cell) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "CONTAINERD\tFILES\tACCEPTED\tCELLS\tADDED\tRESTORED\tREFUSED\tMISSED")
	line := func(name string, t totals) {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", name, t.Files, t.Accepted, t.Cells, t.Added, t.Restored, t.Refused, t.Misses)
	}
	for _, version := range t.Versions {
		v := totals{Files: t.Files}
		for _, c := range cells {
			if c.version == version {
				v.Cells++
				v.add(c)
			}
		}
		line(version, v)
	}
	line("all", *t)
	tw.Flush()
	fmt.Fprintln(w, "\nAccepted by containerd, refused by quiesce:")
	for i, c := range cells {
		same := func(o *cell) bool { return o.version == c.version && o.file == c.file && o.why == c.why }
		if c.accepted && c.verdict == refused && !slices.ContainsFunc(cells[:i], same) {
			fmt.Fprintf(w, "  %s  %s: %s\n", c.version, c.file, c.why)
		}
	}
	for _, c := range cells {
		if c.verdict == missed {
			fmt.Fprintf(w, "MISSED  %s  %s, %s: %s\n", c.version, c.file, c.operation, c.why)
		}
	}
}

// write puts the totals, and each cell, into files.
func (t *totals) write(out string, cells []*cell) error {
	if err := os.MkdirAll(filepath.Join(out, "evidence"), 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "matrix.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	var tsv strings.Builder
	tsv.WriteString("containerd\tfile\toperation\taccepted by containerd\tverdict\treason\n")
	for _, c := range cells {
		why := strings.NewReplacer("\t", " ", "\n", " ").Replace(c.why)
		fmt.Fprintf(&tsv, "%s\t%s\t%s\t%v\t%s\t%s\n", c.version, c.file, c.operation, c.accepted, c.verdict, why)
	}
	return os.WriteFile(filepath.Join(out, "evidence", "matrix.tsv"), []byte(tsv.String()), 0o644)
}
