package config

import (
	"testing"

	"quiesce/test/node"
)

// program is a containerd 2, which judges what is written for it; legacyProgram is a containerd 1.7.
func program(t testing.TB) string { return node.Containerd(t, node.DefaultContainerd) }

func legacyProgram(t testing.TB) string { return node.Containerd(t, "1.7.35") }
