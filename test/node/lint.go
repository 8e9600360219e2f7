package node

import (
	"context"
	"fmt"
	"path/filepath"
)

// Linter is golangci-lint, built into the cache when it is not there, and the root of the module under test. It needs
// nothing else of a node, nor root.
func Linter(ctx context.Context) (program, module string, err error) {
	c, err := openCache()
	if err != nil {
		return "", "", fmt.Errorf("prepare linter: %w", err)
	}
	if module, err = moduleRoot(); err != nil {
		return "", "", fmt.Errorf("prepare linter: %w", err)
	}
	dir, err := (&Kit{cache: c, module: module}).tool(ctx, tool{
		name: "golangci-lint", version: "2.15.0", module: "lint", ldflags: "-s -w",
		packages: []string{"github.com/golangci/golangci-lint/v2/cmd/golangci-lint"},
	})
	if err != nil {
		return "", "", fmt.Errorf("prepare linter: %w", err)
	}
	return filepath.Join(dir, "golangci-lint"), module, nil
}
