// Package failpoint ends or holds a process at a step of what it does, for tests of crashes. It is compiled in with the
// build tag chaos only; else At is empty.
//
// A test talks to it through the directory Dir of the node, which it makes:
//
//	trace     while it is there, every step that a process passes is appended to it, a line each
//	plan      COUNT ACTION [STEP]: what to do when a process comes to its COUNTth step, or the COUNTth of that name.
//	          Whoever does it takes the file away first, so that it is done once.
//	reached   says then which step that was
//	release   ends a hold
//
// ACTION is kill (SIGKILL to the process itself) or hold (wait for release, however long: the test kills others, or cuts
// the power, meanwhile).
package failpoint

// Dir is the directory on the node. It outlives a boot.
const Dir = "/var/lib/quiesce-chaos"
