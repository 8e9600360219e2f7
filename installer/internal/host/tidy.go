package host

import (
	"path"
	"strings"
)

// tidy removes what a crash left half written beside files of ours. Only one host command may run at a time.
func (n *Node) tidy() error {
	dirs := []string{binDir, linkDir, path.Dir(confFile), path.Dir(logindFile), unitDir}
	names, err := n.list(unitDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".wants") || strings.HasSuffix(name, ".scope.d") || strings.HasSuffix(name, ".service.d") {
			dirs = append(dirs, path.Join(unitDir, name))
		}
	}
	for _, dir := range dirs {
		if err := n.tree.SweepTemp(dir); err != nil {
			return err
		}
	}
	return nil
}
