package drain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// bound is how late something stops: what follows it stops in a later wave, or in a later tier.
type bound struct {
	rank, wave int
	pod        *Placement
	why        string // of the edge it has come along, as far as known
}

// settle moves pods whose tier is only inferred so that every edge holds, first down from what follows, then up from
// what goes before, and gives waves inside tiers. Edges between placed pods that cannot hold are contradictions.
func (p *Policy) settle(g *graph) error {
	order := g.sorted()
	p.moveDown(g, order)
	return p.moveUp(g, order)
}

// moveDown puts what goes before a placed pod into a tier that is not later.
func (p *Policy) moveDown(g *graph, order []int) {
	earliest := make([]*bound, len(g.next)) // of what follows and is placed
	for _, i := range slices.Backward(order) {
		for _, j := range g.after(i) {
			b := earliest[j]
			if b != nil && (earliest[i] == nil || b.rank < earliest[i].rank) {
				earliest[i] = &bound{rank: b.rank, why: cmp.Or(g.next[i][j], b.why)}
			}
		}
		if i >= len(g.pods) {
			continue
		}
		a, b := g.pods[i], earliest[i]
		if b != nil && a.Rank > b.rank && !a.fixed {
			p.move(a, b.rank, b.why)
			a.fixed = true // as far as what comes before it is concerned
		}
		if earliest[i] = nil; a.fixed {
			earliest[i] = &bound{rank: a.Rank}
		}
	}
}

// moveUp brings what follows behind what goes before.
func (p *Policy) moveUp(g *graph, order []int) error {
	hubs := make([][]bound, len(g.next)) // for each hub and tier the last wave
	var problems []error
	for _, i := range order {
		from := hubs[i]
		if i < len(g.pods) {
			from = []bound{{rank: g.pods[i].Rank, wave: g.pods[i].Wave, pod: g.pods[i]}}
		}
		for _, j := range g.after(i) {
			for _, b := range from {
				b.why = cmp.Or(b.why, g.next[i][j])
				if j >= len(g.pods) {
					hubs[j] = latest(hubs[j], b)
				} else if err := p.follow(g.pods[j], b); err != nil {
					problems = append(problems, err)
				}
			}
		}
	}
	return errors.Join(problems...)
}

// latest adds a bound to a hub's: by tier, one for each.
func latest(all []bound, b bound) []bound {
	i, found := slices.BinarySearchFunc(all, b, func(x, y bound) int { return cmp.Compare(x.rank, y.rank) })
	switch {
	case !found:
		return slices.Insert(all, i, b)
	case all[i].wave < b.wave:
		all[i] = b
	}
	return all
}

// follow puts b behind what stops earlier.
func (p *Policy) follow(b *Placement, a bound) error {
	switch {
	case a.rank > b.Rank && b.fixed:
		return fmt.Errorf("contradiction: %s is in tier %s (%s), %s in tier %s (%s), but %s",
			a.pod.Pod, a.pod.Tier, a.pod.Why[0], b.Pod, b.Tier, b.Why[0], a.why)
	case a.rank > b.Rank:
		p.move(b, a.rank, a.why)
		b.Wave = a.wave + 1
	case a.rank == b.Rank && b.Wave <= a.wave:
		b.Wave = a.wave + 1
		b.because(a.why)
	}
	return nil
}

func (p *Policy) move(pl *Placement, rank int, why string) {
	pl.Rank, pl.Tier = rank, p.name(rank)
	pl.because("moved to tier " + pl.Tier + ": " + why)
}
