// Package fault holds the tests of what goes wrong around quiesce on a real node: restarts that fail, disks that are full,
// hostile entries, a systemd that executes itself anew, parts that are missing.
package fault
