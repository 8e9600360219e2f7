// Package drain stops pods in order, each with its own grace, and says what happened to every container.
//
// [New] makes a [Plan] of a snapshot and a [Policy]; it is pure. [Engine] carries a plan out: step after step, the pods
// of a step in parallel, in a pod the mains and then the sidecars in reverse. One container gets: its preStop hook, its
// stop signal once, the rest of its pod's grace, SIGKILL. A step is over when its processes are; how the containers ended is asked
// of the runtime, and sandboxes are stopped, beside the next step. A step with pods on the node's own network waits for both,
// for the network plugin is such a pod.
//
// Everything is in [State], which is on disk before it is done: a drain that was killed goes on where it was, and a
// container whose signal is recorded does not get another one. State is also the report, after a reboot too.
//
//	draining ──► drained ──► ended (resume, start of the drain unit, boot)
//	    └──► interrupted ──► draining (the next drain goes on) or ended
//
// [Fence] is what the daemon makes of a State while it is draining, drained or interrupted in the boot in which it
// began: containers of pods whose turn has come are not created.
//
// A drain ends at its deadline whatever pods do. What survives SIGKILL is called unkillable and passed by.
package drain
