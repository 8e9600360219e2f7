package main

import (
	"strings"
	"testing"
)

func TestDriftNote(t *testing.T) {
	for gaveUp, want := range map[string][]string{"": {"/a, /b", "the next boot"}, "no answer": {"/a, /b", "is not tried again by itself (no answer)"}} {
		note := driftNote([]string{"/a", "/b"}, gaveUp)
		for _, w := range want {
			if !strings.Contains(note, w) {
				t.Errorf("%q does not say %q", note, w)
			}
		}
		if gaveUp != "" && strings.Contains(note, "next boot") {
			t.Errorf("%q promises a repair at the next boot", note)
		}
	}
}
