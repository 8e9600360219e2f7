package measure

import (
	"fmt"
	"math"
)

// Base is what ours is measured against.
type Base int

// The bases.
const (
	Alone    Base = iota // the goal is an absolute figure
	ToPeer               // ratio of ours to the peer
	ToFloor              // ratio of ours to the floor
	Informal             // there is no goal: the figure is for the reader
)

// Goal is an upper limit.
type Goal struct {
	Base   Base
	Limit  float64 // of the ratio, or of ours if Alone
	Strict bool    // ours must be below it, not at it
	Hard   bool
	Offset float64 // taken from both sides before the ratio is made: a quiet period
	Note   string  // said after the goal
}

// Line is one row of the benchmark.
type Line struct {
	Name, Unit        string
	Ours, Peer, Floor Series
	PeerName          string // with its version
	Goal              Goal
}

// Ratio is ours to the base of the goal, or to the peer, or to the floor; NaN if there is neither.
func (l Line) Ratio() float64 {
	base := l.Peer.Median()
	if l.Goal.Base == ToFloor || len(l.Peer) == 0 {
		base = l.Floor.Median()
	}
	return (l.Ours.Median() - l.Goal.Offset) / (base - l.Goal.Offset)
}

// Met tells whether the goal is met; a line without a goal is.
func (l Line) Met() bool {
	v := l.Ratio()
	switch l.Goal.Base {
	case Informal:
		return true
	case Alone:
		v = l.Ours.Median()
	case ToPeer, ToFloor:
	}
	return !math.IsNaN(v) && (v < l.Goal.Limit || v == l.Goal.Limit && !l.Goal.Strict)
}

// goal says the goal in words.
func (l Line) goal() string {
	sign, note := "≤", l.Goal.Note
	if l.Goal.Strict {
		sign = "<"
	}
	if note != "" {
		note = " " + note
	}
	switch l.Goal.Base {
	case ToPeer:
		return fmt.Sprintf("ratio to the peer %s %g%s", sign, l.Goal.Limit, note)
	case ToFloor:
		return fmt.Sprintf("ratio to the floor %s %g%s", sign, l.Goal.Limit, note)
	case Alone:
		return fmt.Sprintf("%s %g %s%s", sign, l.Goal.Limit, l.Unit, note)
	case Informal:
	}
	return "none" + note
}
