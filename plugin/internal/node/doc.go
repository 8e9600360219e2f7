// Package node is what quiesce knows of the pods of its node, and which of them are installers in flight.
//
// State takes events (NRI) and lists (CRI and containerd's sandbox metadata). Lists decide, events only
// come sooner: after a containerd restart NRI never reports the end of older pods (containerd
// internal/nri/nri.go keeps pod states in memory), and Synchronize can miss sandboxes that are being
// made (containerd/nri#63).
//
// All methods of State may be called from any goroutine, touch memory only and return at once.
// Snapshots are never changed after they were handed out.
package node
