package assign

import (
	"cmp"
	"container/heap"
	"slices"
)

// fill gives what nobody has to whoever has least, topics with few subscribers
// first: those have no choice.
func (p *problem) fill() {
	order := make([]int, len(p.topics))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(p.topics[a].subs), len(p.topics[b].subs)) })
	for _, t := range order {
		topic := &p.topics[t]
		missing := topic.count
		for _, s := range topic.subs {
			missing -= s.have
		}
		if missing == 0 {
			continue
		}
		least := &byLoad{p: p, topic: topic, subs: make([]int, len(topic.subs))}
		for s := range least.subs {
			least.subs[s] = s
		}
		heap.Init(least)
		for range missing {
			s := least.subs[0]
			topic.subs[s].have++
			p.load[topic.subs[s].member]++
			heap.Fix(least, 0)
		}
	}
}

// byLoad is the subscribers of a topic as a heap, the one with the least
// partitions on top; of equals the first.
type byLoad struct {
	p     *problem
	topic *topic
	subs  []int
}

func (h *byLoad) Len() int { return len(h.subs) }

func (h *byLoad) Less(i, j int) bool {
	a, b := h.topic.subs[h.subs[i]].member, h.topic.subs[h.subs[j]].member
	return cmp.Or(cmp.Compare(h.p.load[a], h.p.load[b]), cmp.Compare(a, b)) < 0
}

func (h *byLoad) Swap(i, j int) { h.subs[i], h.subs[j] = h.subs[j], h.subs[i] }
func (h *byLoad) Push(any)      {}
func (h *byLoad) Pop() any      { return nil }
