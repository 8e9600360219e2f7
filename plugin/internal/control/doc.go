// Package control is the daemon's Unix socket: HTTP with JSON, and /metrics.
//
// The socket is root's: its directory is 0700, its mode 0600, and the credentials of each peer are checked.
package control
