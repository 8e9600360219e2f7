package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// program is what a page made of the code says that a program takes.
type program struct {
	verbs map[string]bool
	flags map[string][]string // by verb; "" has the program's own
}

func programs(t *testing.T) map[string]program {
	t.Helper()
	all := map[string]program{}
	flag := regexp.MustCompile("`(--?[a-z0-9-]+)`")
	for _, name := range []string{"quiesce", "quiesce-installer"} {
		b, err := os.ReadFile(filepath.Join(root, "docs/usage", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		p := program{verbs: map[string]bool{"": true}, flags: map[string][]string{"": {"--help", "--version"}}}
		verb := ""
		for line := range strings.Lines(string(b)) {
			if title, ok := strings.CutPrefix(line, "## "+name+" "); ok {
				verb = strings.Fields(title)[0]
				p.verbs[verb] = true
			}
			if names, _, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(line, "- ") {
				for _, m := range flag.FindAllStringSubmatch(names, -1) {
					p.flags[verb] = append(p.flags[verb], m[1])
				}
			}
		}
		if len(p.verbs) < 5 {
			t.Fatalf("%s.md has %d verbs", name, len(p.verbs))
		}
		all[name] = p
	}
	return all
}

// command is a call of one of our programs.
var command = regexp.MustCompile(`^(?:sudo )?(?:[^\s]*/)?(quiesce|quiesce-installer)"?((?: +[^#|\s]+)+)`)

// TestDocsNameCommandsThatExist: every verb and every flag that the documents, manifests and the README tell people to type.
func TestDocsNameCommandsThatExist(t *testing.T) {
	all := programs(t)
	seen := 0
	for _, f := range files(t, ".md", ".yaml", ".sh", ".service") {
		if strings.HasPrefix(f, filepath.Join(root, "test")) || strings.HasSuffix(f, "CHANGELOG.md") || strings.Contains(f, "docs/usage/quiesce") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range spans(f, string(b)) {
			for _, m := range command.FindAllStringSubmatch(text, -1) {
				if checkCommand(t, f, all[m[1]], m[1], strings.Fields(m[2])) {
					seen++
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d commands were found", seen)
	}
}

// spans are the commands of a file: between backticks, indented in a document, or run in a script or a unit.
func spans(file, text string) (out []string) {
	span := regexp.MustCompile("`([^`\n]+)`")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			out = append(out, m[1])
		}
		switch indented := strings.HasPrefix(line, "    "); {
		case filepath.Ext(file) == ".md" && indented, filepath.Ext(file) == ".sh" && strings.Contains(line, "$bin/"):
			out = append(out, line)
		case strings.HasPrefix(line, "Exec"):
			_, line, _ = strings.Cut(line, "=")
			out = append(out, line)
		}
	}
	var parts []string
	for _, s := range out {
		for p := range strings.SplitSeq(s, ";") {
			parts = append(parts, strings.TrimLeft(strings.TrimSpace(p), `"`))
		}
	}
	return parts
}

// hidden are the flags that are not for people: the units use them.
var hidden = []string{"--unit", "--boot", "--from-systemd"}

func checkCommand(t *testing.T, file string, p program, name string, words []string) bool {
	t.Helper()
	verb := strings.Trim(words[0], `"`)
	if !regexp.MustCompile(`^[a-z]+$`).MatchString(verb) || len(words[0]) != len(verb) {
		return false // prose, a path, or a flag of the program's own
	}
	if verb == "thaw" { // hidden
		return true
	}
	if !p.verbs[verb] {
		t.Errorf("%s: there is no `%s %s`", file, name, verb)
		return false
	}
	for _, w := range words[1:] {
		w, _, _ = strings.Cut(strings.Trim(w, `"[](),.`), "=")
		if strings.HasPrefix(w, "--") && !slices.Contains(p.flags[verb], w) && !slices.Contains(p.flags[""], w) && !slices.Contains(hidden, w) {
			t.Errorf("%s: `%s %s` has no flag %s", file, name, verb, w)
		}
	}
	return true
}

// TestDocsNameSettingsThatExist: what documents say of settings, as `drain.NAME` or at the beginning of a line of an example.
func TestDocsNameSettingsThatExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/usage/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	table := ""
	for line := range strings.Lines(string(b)) {
		if m := regexp.MustCompile("^## `\\[+([a-z.]+)\\]+`").FindStringSubmatch(line); m != nil {
			table = m[1] + "."
		}
		if m := regexp.MustCompile("^\\| `([A-Za-z]+)` \\|").FindStringSubmatch(line); m != nil {
			known[table+m[1]] = true
		}
	}
	if len(known) < 30 {
		t.Fatalf("only %d settings are known", len(known))
	}
	span := regexp.MustCompile("`(drain\\.[A-Za-z.]+)`|`(quietPeriod|[a-z]+(?:Timeout|Limit|Services|Namespaces|Jobs|Images|Paths|Address|Labels|Socket|Defer))\\b")
	for _, f := range files(t, ".md") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range span.FindAllStringSubmatch(string(text), -1) {
			if name := m[1] + m[2]; !known[name] && !strings.HasPrefix(f, filepath.Join(root, "test")) {
				t.Errorf("%s: there is no setting %s", f, name)
			}
		}
	}
}
