// Package process reaches containers when their runtime is gone: by PID, start time and cgroup, as they were noted
// while it lived.
//
// Only containers of runc's shim are touched: their PID is their own. A process counts as the container's only if its
// start time is the noted one and its cgroup bears the container's id, and is signalled through a pidfd, so that a PID
// that is used again is never hit.
package process
