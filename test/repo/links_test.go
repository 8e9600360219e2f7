package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks: every relative link of a document leads to a file that is there, and to a heading that it has.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	seen := 0
	for _, f := range files(t, ".md") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			name, anchor, _ := strings.Cut(m[1], "#")
			target := f
			if name != "" {
				target = filepath.Join(filepath.Dir(f), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", f, m[1])
			} else if anchor != "" && !anchors(t, target)[anchor] {
				t.Errorf("%s: %s: there is no such heading", f, m[1])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d links were found", seen)
	}
}

// anchors are the headings of a page as links name them.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if title := strings.TrimLeft(line, "#"); title != line {
			name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			all[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return all
}
