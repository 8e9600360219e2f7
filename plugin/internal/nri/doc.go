// Package nri is the connection to the runtime's NRI socket.
//
// Plugin holds the callbacks: they translate an event and hand it to a Sink, touch memory only, and never return an
// error except for a fence. Session keeps one connection: a new stub for each (a stub cannot be used again,
// containerd/nri#73), a watchdog around its registration (containerd/nri#298), back-off between tries.
package nri
