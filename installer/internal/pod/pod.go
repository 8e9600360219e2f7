// Package pod finds out whether this process runs in a pod, which nothing tells for certain.
package pod

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Inside says by what a process is taken to run in a pod, or nothing. The signs are the environment that the
// kubelet or the pod's own manifest sets, and an inbox (or the stage around it) that is a bind mount of its own:
// on a host it is a plain directory.
func Inside(getenv func(string) string, mountinfo io.Reader, inbox string) string {
	for _, name := range []string{"KUBERNETES_SERVICE_HOST", "POD_NAME", "POD_UID"} {
		if getenv(name) != "" {
			return name + " is set"
		}
	}
	if real, err := filepath.EvalSymlinks(inbox); err == nil {
		inbox = real
	}
	for s := bufio.NewScanner(mountinfo); s.Scan(); {
		f := strings.Fields(s.Text()) // id parent major:minor root mount-point …
		if len(f) < 5 {
			continue
		}
		root, at := f[3], f[4]
		if at == inbox || at == filepath.Dir(inbox) && at != "/" && root != "/" {
			return at + " is a mount"
		}
	}
	return ""
}

// Writable tells whether this process may stage something in the inbox.
func Writable(inbox string) bool {
	return unix.Access(filepath.Join(inbox, "tmp"), unix.W_OK) == nil
}
