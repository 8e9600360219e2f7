package main

import "testing"

func TestTimeIsUp(t *testing.T) {
	for said, want := range map[string]bool{
		"exit status 1: fuzz: elapsed: 20s, execs: 206481 (9753/sec), new interesting: 25 (total: 562)\n--- FAIL: FuzzAnnotations (20.16s)\n" +
			"    context deadline exceeded\nFAIL\nexit status 1\nFAIL\tquiesce/plugin/internal/drain\t20.170s": true,
		"exit status 1: --- FAIL: FuzzAnnotations (0.16s)\n    --- FAIL: FuzzAnnotations (0.00s)\n        context deadline exceeded\n    \n" +
			"    Failing input written to testdata/fuzz/FuzzAnnotations/96bc07bcf7d35ea6\nFAIL\nexit status 1": false,
		"exit status 1: --- FAIL: FuzzAnnotations (20.16s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\nFAIL":      false,
		"exit status 1: --- FAIL: FuzzAnnotations (20.16s)\n    context deadline exceeded\n    open testdata: read-only file system\nFAIL": false,
	} {
		if got := timeIsUp.MatchString(said); got != want {
			t.Errorf("%v for %q", got, said)
		}
	}
}
