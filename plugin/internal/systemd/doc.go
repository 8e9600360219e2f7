// Package systemd starts and restarts units over D-Bus and tells systemd how the daemon is.
//
// It prefers systemd's private socket, which works while the bus daemon is down, and falls back to the system bus.
package systemd
