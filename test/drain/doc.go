// Package drain holds the tests of ordered, graceful stops on a real node: systemd, containerd, real processes.
//
// A kubelet of the tests' own keeps pods running as the real one does: it makes anew what ends. The containers run
// victim, which writes down every signal it gets on a host path, and ends as it was told. The stories that the demo
// tells, too, are in postgres.go, order.go and fence.go.
package drain
