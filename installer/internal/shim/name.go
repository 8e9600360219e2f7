package shim

import (
	"regexp"
	"strings"

	"quiesce/installer/internal/refusal"
)

const prefix = "containerd-shim-"

var (
	fileForm = regexp.MustCompile(`^containerd-shim-([a-z0-9][a-z0-9_-]*)-(v[0-9]+)$`)
	typeForm = regexp.MustCompile(`^io\.containerd\.([a-z0-9][a-z0-9_-]*)\.(v[0-9]+)$`)
)

// FileOf is the file name by which containerd looks for the shim of a runtime type.
func FileOf(runtimeType string) (string, error) {
	m := typeForm.FindStringSubmatch(runtimeType)
	if m == nil {
		return "", refusal.New("runtime type %q: must look like io.containerd.NAME.v2", runtimeType)
	}
	return prefix + m[1] + "-" + m[2], nil
}

// HandlerOf is the handler that a shim file stands for when no one names one: containerd-shim-spin-v2 is spin-v2,
// as runtime-class-manager and kwasm have it.
func HandlerOf(file string) string { return strings.TrimPrefix(file, prefix) }
