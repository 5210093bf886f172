package node

import (
	"sync"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// maxPooledGroup is how many proposals a group may have had room for to be used
// again: a few KiB.
const maxPooledGroup = 1024

// group is proposals that wait together and become one write.
type group struct {
	proposals []*replica.Proposal
	sizes     []int // of each, in bytes
}

// groups are empty ones.
var groups = sync.Pool{New: func() any { return new(group) }}

// len is 0 for nil.
func (g *group) len() int {
	if g == nil {
		return 0
	}
	return len(g.proposals)
}

func (g *group) add(proposal *replica.Proposal, size int) {
	g.proposals = append(g.proposals, proposal)
	g.sizes = append(g.sizes, size)
}

// split keeps what comes first and has at most limit bytes, at least one proposal,
// and returns the others as a group, nil if there are none.
func (g *group) split(limit int) *group {
	bytes, n := 0, 0
	for n < len(g.sizes) && (n == 0 || bytes+g.sizes[n] <= limit) {
		bytes += g.sizes[n]
		n++
	}
	if n == len(g.proposals) {
		return nil
	}
	rest := groups.Get().(*group)
	rest.proposals = append(rest.proposals, g.proposals[n:]...)
	rest.sizes = append(rest.sizes, g.sizes[n:]...)
	clear(g.proposals[n:])
	g.proposals, g.sizes = g.proposals[:n], g.sizes[:n]
	return rest
}

// release gives back a group whose proposals are answered.
func (g *group) release() {
	clear(g.proposals)
	g.proposals, g.sizes = g.proposals[:0], g.sizes[:0]
	if cap(g.proposals) <= maxPooledGroup {
		groups.Put(g)
	}
}
