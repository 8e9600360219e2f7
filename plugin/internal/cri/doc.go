// Package cri talks to the container runtime's socket: CRI, and containerd's own task and sandbox services, which
// containerd serves on the same socket. Where they are not served (CRI-O) what they would tell is left out.
//
// A Client may be used from any goroutine and lives across restarts of the runtime: each call dials anew if it must.
package cri
