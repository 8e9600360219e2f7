// Package crash interrupts apply on a real node, at every step that it takes, and looks at what the node makes of it.
//
// The programs are built with failpoints. A [Bench] is a node whose stage, containerd configuration and shims each lie on
// a file system of their own, so that a power cut loses all of what was not synced, or, by the luck of the draw, only of
// some of them: the kernel writes in whatever order it likes. A [Case] is a story, a step and what happens there; [Bench.Try]
// ends with the list of what is wrong afterwards.
//
// Wrong is: a change in neither cur nor bad, or with a result that says otherwise; a handler on disk that is not live, or
// live and not on disk, or not loaded by containerd; a shim that is not whole; a journal, a list of frozen containers, or a
// file half written that is left; a frozen cgroup; a pod that does not run, or no longer; a result that was final before
// the power was cut, and is another afterwards.
package crash
