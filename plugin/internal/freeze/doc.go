// Package freeze keeps containers from ending while the runtime is restarted, by their cgroups' freezer.
//
// A container that ends while containerd is down has no exit code any more: 255, reason Unknown (containerd
// internal/cri/server/restart.go). Frozen from just before until the runtime answers again it ends later, with its code.
//
//	survey ► calm ► guard, inhibitor ► list on disk ► freeze ► survey again … until nothing changes ► (restart) ► thaw
//
// Chosen are the containers of pods that run to completion (Rules). Frozen is only a cgroup that is named after its
// container, holds its init, and holds no shim, VMM, containerd, kubelet or quiesce: what the runc shim makes. Others are
// named as unprotected. A cgroup that is frozen already, or a task that is paused, puts the restart off: it is someone
// else's, is never thawed here, and a paused task is lost to CRI by a restart.
//
// containerd deletes a task before it stores its exit code, so a container may just have ended when it is frozen. After
// each freezing everything is listed again: each chosen container must have a live init and be RUNNING to CRI; one that
// ended is waited for until CRI says EXITED. A set that keeps changing puts the restart off.
//
// # Nothing stays frozen
//
// The list of what is frozen (store/freeze.json) is durable before the first freeze. Thawing touches what is on the list
// and nothing else, and only while it is the same cgroup: its inode number, which the kernel gives once in a boot
// (kernfs ids), so a list of another boot is dropped. It is thawed by
//
//	apply                       when the runtime answers, on every error, on SIGTERM
//	the guard                   at the limit; when apply dies; when the guard itself is stopped
//	systemd, for the guard      its ExecStopPost: when the guard is killed, and at its RuntimeMaxSec
//	quiesce-apply.service       its ExecStopPost, `quiesce thaw`
//	the daemon                  when it starts, at boot too: Recover, which leaves the window of a live apply alone
//
// The guard is a process in a transient unit of its own (systemd.StartGuard) and not a child or a timer: a child is
// in apply's cgroup and dies with the unit; a timer needs PID 1 and a program start at the very moment the node is in
// trouble, while the guard runs already, notices apply's death at once by its pidfd, and survives daemon-reexec as any
// service does. After the limit it goes on thawing as long as apply lives, so that one that was stopped in between
// cannot freeze anything for long. Without a guard nothing is frozen.
//
// # Crash
//
// At any moment: the list says what may be frozen, and one of the above thaws it. What was listed and not yet frozen
// is thawed too, which is nothing. A power cut takes frozen processes with it.
package freeze
