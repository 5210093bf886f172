package assign

import (
	"cmp"
	"container/heap"
)

// level hands partitions down chains, from the fullest member to the emptiest
// that it can reach, until no chain leads to a member that has two less.
//
// A member that reaches none such is done, and so are all that it reaches: it is
// the fullest that is not done, so a later chain would end at a member with even
// less, and none of them reaches one.
func (p *problem) level() {
	fullest := &byFullness{load: p.load, at: make([]int, len(p.load))}
	for m := range p.load {
		fullest.members = append(fullest.members, m)
		fullest.at[m] = m
	}
	heap.Init(fullest)
	s := newSearch(p)
	for fullest.Len() > 0 {
		m := fullest.members[0]
		end := s.from(m)
		if end < 0 || p.load[end] > p.load[m]-2 {
			for _, done := range s.seen {
				fullest.remove(done)
				s.done[done] = true
			}
			continue
		}
		for at := end; at != m; {
			step := s.steps[at]
			topic := &p.topics[step.topic]
			p.give(step.topic, step.from, step.to)
			at = topic.subs[step.from].member
		}
		fullest.fix(m)
		fullest.fix(end)
	}
}

// search finds the members that a member can hand partitions to.
type search struct {
	p *problem
	// done are members that need not be looked at again.
	done []bool

	// mark tells members and topics of this search from those of earlier ones.
	mark    int
	members []int
	topics  []int
	// seen are the members found, in the order in which they were.
	seen []int
	// steps are how each was reached.
	steps []step
}

// step is a partition of a topic that one subscriber gives to another.
type step struct{ topic, from, to int }

func newSearch(p *problem) *search {
	return &search{
		p:       p,
		done:    make([]bool, len(p.load)),
		members: make([]int, len(p.load)),
		topics:  make([]int, len(p.topics)),
		steps:   make([]step, len(p.load)),
	}
}

// from returns the emptiest member that m reaches, or -1. seen has m and all that
// it reaches, unless the search ended early at a member than which none is
// emptier.
func (s *search) from(m int) (emptiest int) {
	least := s.p.load[m] - 2
	for n, load := range s.p.load {
		if !s.done[n] {
			least = min(least, load)
		}
	}
	s.mark++
	s.members[m] = s.mark
	s.seen = append(s.seen[:0], m)
	emptiest = -1
	for i := 0; i < len(s.seen); i++ {
		for _, seat := range s.p.seats[s.seen[i]] {
			topic := &s.p.topics[seat.topic]
			if topic.subs[seat.sub].have == 0 || s.topics[seat.topic] == s.mark {
				continue
			}
			s.topics[seat.topic] = s.mark
			for to, sub := range topic.subs {
				n := sub.member
				if s.members[n] == s.mark || s.done[n] {
					continue
				}
				s.members[n] = s.mark
				s.steps[n] = step{topic: seat.topic, from: seat.sub, to: to}
				s.seen = append(s.seen, n)
				if emptiest < 0 || s.p.load[n] < s.p.load[emptiest] {
					emptiest = n
				}
			}
			if emptiest >= 0 && s.p.load[emptiest] <= least {
				return emptiest
			}
		}
	}
	return emptiest
}

// byFullness is members as a heap, the one with most partitions on top; of
// equals the first.
type byFullness struct {
	load    []int
	members []int
	// at is where each member stands in members, -1 when it is not there.
	at []int
}

func (h *byFullness) Len() int { return len(h.members) }

func (h *byFullness) Less(i, j int) bool {
	a, b := h.members[i], h.members[j]
	return cmp.Or(cmp.Compare(h.load[b], h.load[a]), cmp.Compare(a, b)) < 0
}

func (h *byFullness) Swap(i, j int) {
	h.members[i], h.members[j] = h.members[j], h.members[i]
	h.at[h.members[i]], h.at[h.members[j]] = i, j
}

func (h *byFullness) Push(any) {}

func (h *byFullness) Pop() any {
	last := len(h.members) - 1
	h.at[h.members[last]] = -1
	h.members = h.members[:last]
	return nil
}

func (h *byFullness) fix(member int) { heap.Fix(h, h.at[member]) }

func (h *byFullness) remove(member int) { heap.Remove(h, h.at[member]) }
