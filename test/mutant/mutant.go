// Package mutant breaks one promise of quiesce in a build, so that tests can show that they would notice. The sources stay
// as they are: go build's -overlay is given changed copies of single files.
package mutant

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// edit is what is changed in a file: each old text, which must be there once, by the new one.
type edit struct{ file, from, to string }

// mutants are the promises that can be broken.
func mutants() map[string][]edit {
	syncFile := edit{"plugin/stage/tree.go", "return f.Sync()\n", "return nil\n"}
	return map[string][]edit{
		// Nothing is noted before the host's files are changed: a crash cannot be undone.
		"no-journal": {{"plugin/stage/journal.go", "return s.store.writeJSON(journalName, j, 0o600)", "return nil"}},
		// What was frozen stays so, whoever should thaw it.
		"no-thaw": {
			{"plugin/internal/apply/freeze.go", "r, err := a.Freezer.Thaw(ctx)", "r, err := a.frozen, error(nil)"},
			{"plugin/internal/freeze/cgroup.go", "if err := c.files.write(name, text); err != nil && !gone(err) {", "if _, _, err := name, text, error(nil); err != nil {"},
		},
		// Installers in flight do not count.
		"early-restart": {{"plugin/internal/node/installer.go", "v.InFlight {\n\t\t\tout", "v.InFlight && false {\n\t\t\tout"}},
		// Containers are created while apply takes its last look.
		"no-fence": {{"plugin/internal/daemon/fence.go", "until := time.Now().Add(fenceTime)", "until := time.Time{}"}},
		// Directories and files are not synced.
		"no-sync": {syncFile, {"plugin/stage/tree.go", "d.Sync();", "error(nil);"}},
		// Files are not synced.
		"no-file-sync": {syncFile},
	}
}

// Names lists the mutants.
func Names() (names []string) {
	for name := range mutants() {
		names = append(names, name)
	}
	return names
}

// Flag makes the argument of go build, or go test, that builds a mutant of the module; its files go below dir.
func Flag(module, dir, name string) (string, error) {
	edits, ok := mutants()[name]
	if !ok {
		return "", fmt.Errorf("make mutant %q: there are %s", name, strings.Join(Names(), ", "))
	}
	dir = filepath.Join(dir, "mutant-"+name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make mutant: %w", err)
	}
	changed, replace := map[string]string{}, map[string]string{}
	for _, e := range edits {
		src := filepath.Join(module, e.file)
		text, ok := changed[src]
		if !ok {
			b, err := os.ReadFile(src)
			if err != nil {
				return "", fmt.Errorf("make mutant: %w", err)
			}
			text = string(b)
		}
		if strings.Count(text, e.from) != 1 {
			return "", fmt.Errorf("make mutant %s: %s does not have this once any more: %s", name, e.file, e.from)
		}
		changed[src] = strings.ReplaceAll(text, e.from, e.to)
		replace[src] = filepath.Join(dir, strings.ReplaceAll(e.file, "/", "-")+".txt") // not a package below the module
	}
	var errs error
	for src, file := range replace {
		errs = errors.Join(errs, os.WriteFile(file, []byte(changed[src]), 0o644))
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	overlay := filepath.Join(dir, "overlay.json")
	return "-overlay=" + overlay, errors.Join(errs, err, os.WriteFile(overlay, b, 0o644))
}
