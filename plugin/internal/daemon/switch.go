package daemon

import (
	"sync/atomic"

	"quiesce/plugin/internal/node"
)

// Switch is a fence that lets everything pass until it is given one.
type Switch struct{ to atomic.Pointer[Guards] }

// Set gives it one; nil takes it away.
func (s *Switch) Set(g *Guards) { s.to.Store(g) }

// Refuse is part of nri.Fence.
func (s *Switch) Refuse(p *node.Pod) error {
	if g := s.to.Load(); g != nil {
		return g.Refuse(p)
	}
	return nil
}
