// Package loss shows that a restart of containerd costs no exit code: containers that end at moments known beforehand,
// restarts in between, and a count of those that did not keep their code.
package loss
