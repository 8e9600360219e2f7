package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeysInAnotherCase(t *testing.T) {
	for text, want := range map[string]string{
		"quietPeriod = '1s'\nlogFormat = 'json'":           "",
		"QuietPeriod = '1s'":                               "line 1: QuietPeriod",
		"\n[drain]\ndeadline = '1m'\nduringupgrade = true": "line 4: duringupgrade",
		"[Drain]\ndeadline = '1m'":                         "line 1: Drain",
		"drain.Grace = '1m'":                               "line 1: Grace",
		"drain = {grace = '1m', Kubelet = ''}":             "line 1: Kubelet",
		"[drain]\nrule = [\n  {static = true, tier = 'static'},\n  {Static = true},\n]": "line 4: Static",
		"[[drain.Tier]]\nname = 'x'\nrank = 1":                                          "line 1: Tier",
		"[[drain.tier]]\nname = 'x'\nRank = 1":                                          "line 3: Rank",
		"[[drain.hook]]\nwhen = 'pre-drain'\npath = '/x'\nonfailure = ''":               "line 4: onfailure",
		"[[drain.edge]]\nfirst = 'a=b'\nthen = 'a=c'":                                   "",
	} {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := readConfig(file)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), file+": "+want+" is not a setting") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
