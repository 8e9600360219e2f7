package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"quiesce/test/node"
)

// keep keeps the journal of a node on which something is wrong, in out/.
func (b *Bench) keep(ctx context.Context, c Case) {
	kit, err := node.Prepare(ctx)
	if err != nil {
		return
	}
	text, err := b.Journal(ctx)
	if err != nil {
		text += err.Error()
	}
	name := strings.NewReplacer(" ", "-", "/", "-", "(", "", ")", "", ":", "").Replace(c.String())
	file := filepath.Join(kit.Module(), "out", "crash-"+name+".journal")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		fmt.Fprintln(os.Stderr, "keep journal:", err)
	}
}

// NoSync makes an argument of go build that leaves every sync of the stage out: what such programs do must be found wrong.
func NoSync(kit *node.Kit) (string, error) {
	src := filepath.Join(kit.Module(), "plugin/stage/tree.go")
	text, err := os.ReadFile(src)
	if err != nil {
		return "", fmt.Errorf("leave out syncs: %w", err)
	}
	if n := strings.Count(string(text), ".Sync();") + strings.Count(string(text), "return f.Sync()\n"); n < 2 {
		return "", fmt.Errorf("leave out syncs: %d of them are in %s", n, src)
	}
	dir := filepath.Join(kit.Dir(), "tmp", "no-sync")
	mutant := strings.NewReplacer("d.Sync();", "error(nil);", "f.Sync();", "error(nil);", "return f.Sync()\n", "return nil\n").Replace(string(text))
	overlay := fmt.Sprintf(`{"Replace": {%q: %q}}`, src, filepath.Join(dir, "tree.go"))
	err = errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "tree.go"), []byte(mutant), 0o644),
		os.WriteFile(filepath.Join(dir, "overlay.json"), []byte(overlay), 0o644))
	return "-overlay=" + filepath.Join(dir, "overlay.json"), err
}
