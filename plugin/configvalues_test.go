package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestValuesThatAreNoText has values without quotes where a text with a meaning is read: they are no number of nanoseconds.
func TestValuesThatAreNoText(t *testing.T) {
	unit := ` and have a unit, as in "5s"`
	for text, want := range map[string]string{
		"quietPeriod = 5":        "line 1: quietPeriod: must be in quotes" + unit,
		"quietPeriod=-1":         "line 1: quietPeriod: must be in quotes" + unit,
		"quietPeriod = {}":       "line 1: quietPeriod: must be in quotes" + unit,
		"\n[drain]\ngrace = 1.5": "line 3: grace: must be in quotes" + unit,
		"drain = {hook = [{when = 'pre-drain', timeout=1}]}": "line 1: timeout: must be in quotes" + unit,
		"[[drain.edge]]\nfirst = 5\nthen = 'a=b'":            "line 2: first: must be in quotes",
		"[drain]\ngrace = '5'":                               `line 2: drain.grace: toml: time: missing unit in duration "5"`,
		"quietPeriod = '-5s'":                                "line 1: quietPeriod: toml: must not be negative",
		"[quietPeriod]\nDuration = 5":                        "line 2: quietPeriod.Duration is not a setting; `quiesce run --help` names the file with all of them",
	} {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(file); err == nil || err.Error() != file+": "+want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
