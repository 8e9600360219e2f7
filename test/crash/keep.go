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

// keep keeps the journal of a node on which something is wrong, in out/; what is what was tried.
func (b *Bench) keep(ctx context.Context, what string) {
	kit, err := node.Prepare(ctx)
	if err != nil {
		return
	}
	text, err := b.Journal(ctx)
	if err != nil {
		text += err.Error()
	}
	name := strings.NewReplacer(" ", "-", "/", "-", "(", "", ")", "", ":", "").Replace(what)
	file := filepath.Join(kit.Module(), "out", "crash-"+name+".journal")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		fmt.Fprintln(os.Stderr, "keep journal:", err)
	}
}
