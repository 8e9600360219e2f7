// Package daemon is the loop of `quiesce run`: it keeps the node's state fresh, asks the gate, and starts apply's unit.
//
// Nothing is lost when it dies: entries are in the stage, a hold is on disk, apply is another unit, and what is in flight
// is found anew from lists.
package daemon
