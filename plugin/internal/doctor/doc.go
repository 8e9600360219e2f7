// Package doctor judges a node: what keeps quiesce from doing what it promises, and what to do about it.
//
// Checks are pure: they look at Facts, which somebody else has gathered, with or without a daemon, with or without containerd.
// What could not be found out is a fact too, and never taken for good.
package doctor
