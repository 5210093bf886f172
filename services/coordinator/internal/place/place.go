// Package place decides which nodes hold the replicas of a new topic. It is a
// pure function: the same question has the same answer.
//
// Replicas are put one after the other. Each goes to a node that has none of
// the partition yet, in a rack that has the fewest of the partition's replicas;
// among these racks to the one with the least load a node, and in it to the
// node with the least load. As long as racks are of the same size, or
// partitions have one replica, the nodes' loads so end within one of each
// other; where they are not, a partition's safety goes before evenness.
package place

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// ErrTooFewNodes means that there are fewer nodes than a partition shall have replicas.
var ErrTooFewNodes = errors.New("fewer nodes than replicas")

// Node is a node that may hold replicas.
type Node struct {
	ID string
	// Rack is what fails together; nodes without one are all in the rack "".
	Rack string
	// Load is the number of replicas that the node holds already.
	Load int
}

// Place returns the nodes of each partition; the first of them is the one that
// should lead, and these are spread as evenly as the rest allows. Among equals
// seed decides, so that small topics do not all begin on the same node.
func Place(nodes []Node, partitions, replicas int, seed uint64) ([][]string, error) {
	if replicas > len(nodes) {
		return nil, fmt.Errorf("%d replicas on %d nodes: %w", replicas, len(nodes), ErrTooFewNodes)
	}
	p := newPlacer(nodes, seed)
	assignments := make([][]string, partitions)
	for i := range assignments {
		assignments[i] = p.partition(replicas)
	}
	return assignments, nil
}

// slot is a node and what it has been given.
type slot struct {
	id   string
	rack *rack
	load int
	// leads counts partitions that name the node first.
	leads int
	// used is the number of the partition that last used the node.
	used int
}

// rack has its slots in the order in which ties are broken.
type rack struct {
	slots []*slot
	load  int
	// here counts replicas of the partition at hand.
	here int
}

type placer struct {
	racks []*rack
	// turn is the number of the partition at hand, from 1.
	turn int
}

func newPlacer(nodes []Node, seed uint64) *placer {
	// Sorted first, so that the order in which the nodes came does not matter.
	sorted := slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(sorted), func(i, j int) { sorted[i], sorted[j] = sorted[j], sorted[i] })

	p := &placer{}
	byName := make(map[string]*rack)
	for _, n := range sorted {
		r, ok := byName[n.Rack]
		if !ok {
			r = &rack{}
			byName[n.Rack] = r
			p.racks = append(p.racks, r)
		}
		r.slots = append(r.slots, &slot{id: n.ID, rack: r, load: n.Load})
		r.load += n.Load
	}
	return p
}

func (p *placer) partition(replicas int) []string {
	p.turn++
	for _, r := range p.racks {
		r.here = 0
	}
	chosen := make([]*slot, replicas)
	for i := range chosen {
		s := p.next()
		s.used = p.turn
		s.load++
		s.rack.load++
		s.rack.here++
		chosen[i] = s
	}
	first := 0
	for i, s := range chosen {
		if s.leads < chosen[first].leads {
			first = i
		}
	}
	chosen[first].leads++
	chosen[0], chosen[first] = chosen[first], chosen[0]
	ids := make([]string, replicas)
	for i, s := range chosen {
		ids[i] = s.id
	}
	return ids
}

// next finds the node for the partition's next replica; there is one.
func (p *placer) next() *slot {
	var best *rack
	for _, r := range p.racks {
		if r.here == len(r.slots) {
			continue
		}
		if best == nil || r.before(best) {
			best = r
		}
	}
	var least *slot
	for _, s := range best.slots {
		if s.used != p.turn && (least == nil || s.load < least.load) {
			least = s
		}
	}
	return least
}

// before says whether r should be given a replica rather than o: loads are
// compared by node, without dividing.
func (r *rack) before(o *rack) bool {
	if r.here != o.here {
		return r.here < o.here
	}
	return r.load*len(o.slots) < o.load*len(r.slots)
}
