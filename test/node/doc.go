// Package node boots a throwaway machine for tests: systemd as PID 1, D-Bus, containerd as a unit,
// runc, CNI and locally made images, all real, in a container of its own on the machine that runs the tests.
//
// [Prepare] fills a cache (tools, a root file system) that every test process of the user shares;
// [Boot] puts an overlay on it and starts systemd there; [New] is the same for a test, with clean-up.
// A [Node] is reached from outside: [Node.Exec] runs a program in it, [Node.Path] names its files,
// [Node.CRI] speaks to its containerd. [Node.PowerCut], [Node.Shutdown] and [Node.Start] switch it off and on.
// [Node.StartPod] does through CRI what a kubelet does for a pod that is never restarted.
//
// Isolation: a node has its own pid, network, ipc, uts, mount and cgroup namespaces and no network device that leads
// outside. Its processes all live below one cgroup named after the node, which is also how they are found and killed.
//
// Crash safety: artefacts of the cache are built under a temporary name and renamed. A node's directory says
// which process owns it, and [Prepare] removes the nodes whose owner is dead.
//
// Needs: root, runc, debootstrap (both are installed by apt-get when missing), and a cache directory on a
// file system that overlayfs accepts as upper layer, such as ext4 or xfs. QUIESCE_CACHE moves it.
package node
