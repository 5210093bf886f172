package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func topicID(n int) TopicID { return TopicID{14: byte(n >> 8), 15: byte(n)} }

// world is a group as it goes through changes.
type world struct {
	members []Member
	counts  map[TopicID]int32
	next    int
}

// change draws something that happens to the group.
func (w *world) change(t *rapid.T, topics, members, partitions int) {
	subscription := func() []TopicID {
		var ids []TopicID
		for i := range topics {
			if rapid.Bool().Draw(t, "subscribes") {
				ids = append(ids, topicID(i))
			}
		}
		return ids
	}
	switch what := rapid.IntRange(0, 5).Draw(t, "change"); {
	case what <= 1 && len(w.members) < members:
		w.next++
		// Ids are not in the order of joining.
		id := fmt.Sprintf("m%d-%d", rapid.IntRange(0, 9).Draw(t, "id"), w.next)
		w.members = append(w.members, Member{ID: id, Topics: subscription()})
	case what == 2 && len(w.members) > 0:
		at := rapid.IntRange(0, len(w.members)-1).Draw(t, "leaves")
		w.members = slices.Delete(w.members, at, at+1)
	case what == 3 && len(w.members) > 0:
		at := rapid.IntRange(0, len(w.members)-1).Draw(t, "subscribes anew")
		w.members[at].Topics = subscription()
	case what == 4:
		delete(w.counts, topicID(rapid.IntRange(0, topics-1).Draw(t, "goes")))
	default:
		id := topicID(rapid.IntRange(0, topics-1).Draw(t, "grows"))
		if n := rapid.Int32Range(w.counts[id], int32(partitions)).Draw(t, "to"); n > 0 {
			w.counts[id] = n
		}
	}
}

func (w *world) rebalance() []Partitions {
	shares := Assign(w.members, w.counts)
	for i := range w.members {
		w.members[i].Held = shares[i]
	}
	return shares
}

// requireSound says that an assignment is whole, disjoint, in order and only of
// what is subscribed to.
func requireSound(t require.TestingT, w *world, shares []Partitions) {
	require.Len(t, shares, len(w.members))
	owner := make(map[TopicID]map[int32]bool)
	for i, share := range shares {
		for id, list := range share {
			require.Contains(t, w.members[i].Topics, id)
			require.NotEmpty(t, list)
			require.True(t, slices.IsSorted(list))
			for _, p := range list {
				require.Less(t, p, w.counts[id])
				require.False(t, owner[id][p], "two have %v/%d", id, p)
				if owner[id] == nil {
					owner[id] = make(map[int32]bool)
				}
				owner[id][p] = true
			}
		}
	}
	for _, m := range w.members {
		for _, id := range m.Topics {
			require.Len(t, owner[id], int(w.counts[id]))
		}
	}
}

// requireEven says that there is no chain of hand-overs from a member to one
// that has two less.
func requireEven(t require.TestingT, w *world, shares []Partitions) {
	for from := range w.members {
		reached := map[int]bool{from: true}
		for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
			for id := range shares[queue[0]] {
				for to, m := range w.members {
					if !reached[to] && slices.Contains(m.Topics, id) {
						reached[to] = true
						queue = append(queue, to)
					}
				}
			}
		}
		for to := range reached {
			require.GreaterOrEqual(t, shares[to].Count(), shares[from].Count()-1, "from %s to %s", w.members[from].ID, w.members[to].ID)
		}
	}
}

// cost is the sum of squares, then the partitions that were taken from members
// that still subscribe to them.
func cost(members []Member, counts map[TopicID]int32, shares []Partitions) (squares, moves int) {
	for i, m := range members {
		n := shares[i].Count()
		squares += n * n
		for id, list := range m.Held {
			if !slices.Contains(m.Topics, id) {
				continue
			}
			for _, p := range list {
				if p < counts[id] && !slices.Contains(shares[i][id], p) {
					moves++
				}
			}
		}
	}
	return squares, moves
}

// best tries every assignment.
func best(members []Member, counts map[TopicID]int32) (squares, moves int) {
	type partition struct {
		id     TopicID
		number int32
	}
	var all []partition
	for id, n := range counts {
		for p := range n {
			all = append(all, partition{id, p})
		}
	}
	load := make([]int, len(members))
	squares, moves = -1, -1
	var try func(at, moved int)
	try = func(at, moved int) {
		if at == len(all) {
			sum := 0
			for _, n := range load {
				sum += n * n
			}
			if squares < 0 || sum < squares || sum == squares && moved < moves {
				squares, moves = sum, moved
			}
			return
		}
		p := all[at]
		holder := -1
		for i, m := range members {
			if slices.Contains(m.Topics, p.id) && slices.Contains(m.Held[p.id], p.number) {
				holder = i
			}
		}
		anyone := false
		for i, m := range members {
			if !slices.Contains(m.Topics, p.id) {
				continue
			}
			anyone = true
			load[i]++
			if holder >= 0 && holder != i {
				try(at+1, moved+1)
			} else {
				try(at+1, moved)
			}
			load[i]--
		}
		if !anyone {
			try(at+1, moved)
		}
	}
	try(0, 0)
	return squares, moves
}

func TestNoAssignmentIsMoreEvenOrMovesLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{counts: make(map[TopicID]int32)}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			w.change(t, 3, 4, 3)
			before := slices.Clone(w.members)
			wantSquares, wantMoves := best(before, w.counts)
			shares := w.rebalance()
			requireSound(t, w, shares)
			squares, moves := cost(before, w.counts, shares)
			require.Equal(t, wantSquares, squares, "squares")
			require.Equal(t, wantMoves, moves, "moves")
		}
	})
}

func TestLargeGroupsStaySoundAndEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{counts: make(map[TopicID]int32)}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			w.change(t, 6, 12, 30)
			shares := w.rebalance()
			requireSound(t, w, shares)
			requireEven(t, w, shares)

			// The order of the members says nothing, and twice is once.
			at := rapid.Permutation(order(len(w.members))).Draw(t, "order")
			again := make([]Member, len(at))
			for i, m := range at {
				again[i] = w.members[m]
			}
			for i, share := range Assign(again, w.counts) {
				require.Equal(t, shares[at[i]], share)
			}
		}
	})
}

func order(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// What was held by two, out of range or not subscribed to does no harm.
func TestWhatIsHeldMayBeWrong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{counts: map[TopicID]int32{topicID(0): 3, topicID(1): 1}}
		for i := range rapid.IntRange(1, 4).Draw(t, "members") {
			held := make(Partitions)
			for topic := range 3 {
				held[topicID(topic)] = rapid.SliceOf(rapid.Int32Range(-1, 4)).Draw(t, "held")
			}
			m := Member{ID: fmt.Sprint(i), Held: held}
			for topic := range 3 {
				if rapid.Bool().Draw(t, "subscribes") {
					m.Topics = append(m.Topics, topicID(topic), topicID(topic))
				}
			}
			w.members = append(w.members, m)
		}
		shares := w.rebalance()
		requireSound(t, w, shares)
		requireEven(t, w, shares)
	})
}

func TestMembersWithOneSubscriptionDifferByOne(t *testing.T) {
	counts := map[TopicID]int32{topicID(0): 7, topicID(1): 4}
	topics := []TopicID{topicID(0), topicID(1)}
	w := &world{counts: counts}
	for i := range 13 {
		w.members = append(w.members, Member{ID: fmt.Sprintf("m%02d", 12-i), Topics: topics})
		before := slices.Clone(w.members)
		shares := w.rebalance()
		requireSound(t, w, shares)
		least, most := 11, 0
		for _, share := range shares {
			least, most = min(least, share.Count()), max(most, share.Count())
		}
		require.LessOrEqual(t, most-least, 1)
		// A new member gets its share and nothing else moves.
		_, moves := cost(before, counts, shares)
		require.Equal(t, shares[i].Count()*min(i, 1), moves)
	}
}

// manyTopics is members that each subscribe to some of many topics.
func manyTopics(members, topics, each int, partitions int32) *world {
	random := rand.New(rand.NewPCG(1, 2))
	w := &world{counts: make(map[TopicID]int32)}
	for i := range topics {
		w.counts[topicID(i)] = partitions
	}
	for i := range members {
		m := Member{ID: fmt.Sprintf("m%04d", i)}
		for range each {
			m.Topics = append(m.Topics, topicID(random.IntN(topics)))
		}
		w.members = append(w.members, m)
	}
	return w
}

// BenchmarkAssign has a member leave a group of 1,000 with 10,000 partitions.
func BenchmarkAssign(b *testing.B) {
	for name, w := range map[string]*world{
		"one topic":      manyTopics(1000, 1, 1, 10_000),
		"100 topics":     manyTopics(1000, 100, 1000, 100),
		"mixed":          manyTopics(1000, 1000, 10, 10),
		"mixed, 100":     manyTopics(1000, 1000, 100, 10),
		"from the start": manyTopics(1000, 100, 1000, 100),
	} {
		b.Run(name, func(b *testing.B) {
			if name != "from the start" {
				w.rebalance()
			}
			rest := w.members[1:]
			b.ResetTimer()
			for b.Loop() {
				Assign(rest, w.counts)
			}
		})
	}
}
