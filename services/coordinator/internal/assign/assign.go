// Package assign shares the partitions of topics out to the members of a group.
//
// An assignment is
//
//   - whole: every partition of a topic that somebody subscribes to has a member;
//   - disjoint: it has one;
//   - even: there is no chain of members, each of which could give a partition to
//     the next, from one that has two or more partitions more than the last. Among
//     members with the same subscription sizes differ by at most one, and the sum
//     of the squared sizes is the least that subscriptions allow;
//   - sticky: of all even assignments it is one that takes the fewest partitions
//     from members that have them and still subscribe to them;
//   - a function of its inputs alone.
//
// The partitions of a topic are all alike to members, so what is looked for is a
// number for each topic and subscriber. That is a flow of least cost, in which a
// member's partitions cost the more the more it has, and a partition that moves
// costs a little:
//
//	         1 + 3 + 5 + …            0 as far as it had, then 1
//	source ───────────────► member ──────────────────────────────► topic ──► its
//	                                                                   partitions
//
// A first assignment is made greedily (fill), made even along chains of
// hand-overs (level), and then made to move as little as it can by cancelling
// cycles of negative cost (settle). For members that all subscribe to the same
// the second is the best already, and the third only sees that it is.
package assign

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
)

// TopicID names a topic.
type TopicID = rows.TopicID

// Partitions are partitions by topic, each list ascending. A topic without any is
// not in it.
type Partitions map[TopicID][]int32

// Count returns how many partitions there are.
func (p Partitions) Count() int {
	n := 0
	for _, list := range p {
		n += len(list)
	}
	return n
}

// Topics returns the topics in order.
func (p Partitions) Topics() []TopicID {
	return slices.SortedFunc(maps.Keys(p), func(a, b TopicID) int { return bytes.Compare(a[:], b[:]) })
}

// Member is one that gets a share.
type Member struct {
	// ID is the member's alone.
	ID string
	// Topics are what it subscribes to. One that there is not counts for nothing.
	Topics []TopicID
	// Held is what it has so far. It may name what the member does not subscribe
	// to, and partitions that there are not.
	Held Partitions
}

// Assign returns the share of each member, in the order of the members. A share
// that did not change is the list that was passed in. counts are the partitions
// of each topic.
func Assign(members []Member, counts map[TopicID]int32) []Partitions {
	p := newProblem(members, counts)
	p.fill()
	p.level()
	p.settle()
	return p.shares(members)
}

// problem is an assignment in the making.
type problem struct {
	topics []topic
	// load is how many partitions each member has, by its place in the order of
	// ids.
	load []int
	// seats are what each member subscribes to.
	seats [][]seat
	// order is the place of each member among those passed in.
	order []int
}

// topic is a topic that has subscribers.
type topic struct {
	id    TopicID
	count int
	// subs are the members that subscribe to it, ascending, with what each has had
	// and has now.
	subs []share
	// owners are who had each partition, -1 where nobody did that may keep it.
	owners []int32
}

type share struct {
	member    int
	had, have int
}

// seat is the place of a member in a topic: topics[topic].subs[sub].
type seat struct{ topic, sub int }

func newProblem(members []Member, counts map[TopicID]int32) *problem {
	p := &problem{
		load:  make([]int, len(members)),
		seats: make([][]seat, len(members)),
		order: make([]int, len(members)),
	}
	for i := range p.order {
		p.order[i] = i
	}
	slices.SortFunc(p.order, func(a, b int) int { return cmp.Compare(members[a].ID, members[b].ID) })

	// Topics by number: a look-up by id is what costs most here.
	ids := slices.SortedFunc(maps.Keys(counts), func(a, b TopicID) int { return bytes.Compare(a[:], b[:]) })
	numbers := make(map[TopicID]int, len(ids))
	for t, id := range ids {
		if counts[id] > 0 {
			numbers[id] = t
		}
	}
	subscribers := make([][]int, len(ids))
	for m, at := range p.order {
		for _, id := range members[at].Topics {
			t, ok := numbers[id]
			if !ok {
				continue
			}
			// A topic that is named twice is subscribed to once.
			if subs := subscribers[t]; len(subs) == 0 || subs[len(subs)-1] != m {
				subscribers[t] = append(subs, m)
			}
		}
	}
	for number, id := range ids {
		subs := subscribers[number]
		if len(subs) == 0 {
			continue
		}
		t := len(p.topics)
		made := topic{id: id, count: int(counts[id]), subs: make([]share, len(subs))}
		made.owners = make([]int32, made.count)
		for i := range made.owners {
			made.owners[i] = -1
		}
		for s, m := range subs {
			had := 0
			for _, partition := range members[p.order[m]].Held[id] {
				if partition >= 0 && int(partition) < made.count && made.owners[partition] < 0 {
					made.owners[partition] = int32(m)
					had++
				}
			}
			made.subs[s] = share{member: m, had: had, have: had}
			p.load[m] += had
			p.seats[m] = append(p.seats[m], seat{topic: t, sub: s})
		}
		p.topics = append(p.topics, made)
	}
	return p
}

// give moves one partition of a topic from one subscriber to another.
func (p *problem) give(topic, from, to int) {
	t := &p.topics[topic]
	t.subs[from].have--
	p.load[t.subs[from].member]--
	t.subs[to].have++
	p.load[t.subs[to].member]++
}

// shares gives the numbers their partitions: everyone keeps the first of those
// it had, and the others go round in order.
func (p *problem) shares(members []Member) []Partitions {
	shares := make([]Partitions, len(members))
	for i := range shares {
		shares[i] = make(Partitions)
	}
	for t := range p.topics {
		topic := &p.topics[t]
		lists := make(map[int][]int32, len(topic.subs))
		want := make(map[int]int, len(topic.subs))
		for _, s := range topic.subs {
			if s.have > 0 {
				want[s.member] = s.have
				lists[s.member] = make([]int32, 0, s.have)
			}
		}
		var free []int32
		for partition, owner := range topic.owners {
			if owner >= 0 && want[int(owner)] > 0 {
				want[int(owner)]--
				lists[int(owner)] = append(lists[int(owner)], int32(partition))
			} else {
				free = append(free, int32(partition))
			}
		}
		for _, s := range topic.subs {
			if s.have == 0 {
				continue
			}
			list := lists[s.member]
			if n := want[s.member]; n > 0 {
				list = append(list, free[:n]...)
				free = free[n:]
				slices.Sort(list)
			}
			at := p.order[s.member]
			if held := members[at].Held[topic.id]; slices.Equal(held, list) {
				list = held
			}
			shares[at][topic.id] = list
		}
	}
	return shares
}
