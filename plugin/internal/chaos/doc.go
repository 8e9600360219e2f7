// Package chaos plays random histories against quiesce in simulated time (testing/synctest). It has tests only; `make
// chaos` runs many of them, `make test` a few.
//
// Real are the daemon's loop, the gate, the fence, apply and the stage, on file systems in memory of their own, which
// fill up and become read-only. Imitated are the runtime, systemd, the freezer and the pods. Their processes die, are slow,
// and come back; so do the daemon and apply, which may die before any change of a file. That what was not synced is lost
// with the power is not imitated: the real histories (test/crash) cut the power of real file systems.
//
// The same seed gives the same history: what happens, when, and at which step. Two things of the same nanosecond may
// change places.
package chaos
