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

// Mutate makes an argument of go build that leaves syncs of plugin/stage out, all or those of files: what such programs
// do must be found wrong.
func Mutate(kit *node.Kit, mutant string) (string, error) {
	src := filepath.Join(kit.Module(), "plugin/stage/tree.go")
	text, err := os.ReadFile(src)
	if err != nil {
		return "", fmt.Errorf("leave out syncs: %w", err)
	}
	leave := []string{"f.Sync();", "error(nil);", "return f.Sync()\n", "return nil\n"}
	if mutant == "no-sync" {
		leave = append(leave, "d.Sync();", "error(nil);")
	}
	r := strings.NewReplacer(leave...)
	if r.Replace(string(text)) == string(text) {
		return "", fmt.Errorf("leave out syncs: there is none in %s", src)
	}
	dir := filepath.Join(kit.Dir(), "tmp", mutant)
	overlay := fmt.Sprintf(`{"Replace": {%q: %q}}`, src, filepath.Join(dir, "tree.go"))
	err = errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "tree.go"), []byte(r.Replace(string(text))), 0o644),
		os.WriteFile(filepath.Join(dir, "overlay.json"), []byte(overlay), 0o644))
	return "-overlay=" + filepath.Join(dir, "overlay.json"), err
}
