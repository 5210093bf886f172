package group

import (
	"maps"
	"slices"

	"github.com/sluiceio/sluice/services/coordinator/internal/assign"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// rebalance returns the records of a group with other members: the members that
// change, by id, nil where one goes; the shares that follow; and the next
// generation. owner is that of the group from now on.
//
// Topics in gone count as without partitions. Any other that is not known keeps
// the partitions that are shared out already: who takes over a shard may be
// behind for a moment, and must not take from members what they have.
func (s *State) rebalance(name, owner string, changes map[string]*member, gone map[rows.TopicID]bool) ([]shard.Record, map[string]assign.Partitions) {
	g := s.groups[name]
	if g == nil {
		g = s.newcomer()
	}
	members := maps.Clone(g.members)
	if members == nil {
		members = make(map[string]*member, 1)
	}
	records := []shard.Record{groupRecord(name, owner, g.generation+1)}
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		records = append(records, memberRecord(name, id, changes[id]))
		if changes[id] != nil {
			members[id] = changes[id]
			continue
		}
		delete(members, id)
		if len(g.shares[id]) > 0 {
			records = append(records, shareRecord(name, id, nil))
		}
	}

	in := make([]assign.Member, 0, len(members))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		in = append(in, assign.Member{ID: id, Topics: members[id].topics, Held: g.shares[id]})
	}
	shares := make(map[string]assign.Partitions, len(in))
	for i, share := range assign.Assign(in, s.counts(g, members, gone)) {
		id := in[i].ID
		shares[id] = share
		if !maps.EqualFunc(share, g.shares[id], slices.Equal) {
			records = append(records, shareRecord(name, id, share))
		}
	}
	return records, shares
}

// counts returns how many partitions there are of each topic that members
// subscribe to.
func (s *State) counts(g *group, members map[string]*member, gone map[rows.TopicID]bool) map[rows.TopicID]int32 {
	counts := make(map[rows.TopicID]int32)
	for _, m := range members {
		for _, id := range m.topics {
			if _, ok := counts[id]; ok || gone[id] {
				continue
			}
			counts[id], _ = s.topics.Partitions(id)
		}
	}
	for _, share := range g.shares {
		for id, list := range share {
			if n, ok := counts[id]; ok {
				counts[id] = max(n, list[len(list)-1]+1)
			}
		}
	}
	return counts
}

// Stale returns the groups that have partitions of topics that are not known,
// or fewer than their members' topics have.
func (s *State) Stale() []string {
	var stale []string
	for name, g := range s.groups {
		if s.isStale(g) {
			stale = append(stale, name)
		}
	}
	slices.Sort(stale)
	return stale
}

func (s *State) isStale(g *group) bool {
	if len(g.members) == 0 {
		return false
	}
	held := make(map[rows.TopicID]int)
	for _, share := range g.shares {
		for id, list := range share {
			held[id] += len(list)
		}
	}
	looked := make(map[rows.TopicID]bool)
	for _, m := range g.members {
		for _, id := range m.topics {
			if looked[id] {
				continue
			}
			looked[id] = true
			n, ok := s.topics.Partitions(id)
			if have := held[id]; !ok && have > 0 || int(n) > have {
				return true
			}
		}
	}
	return false
}

// Refresh returns the records of a rebalance of a group that is stale. The
// caller has made sure that a topic that is not known is gone.
func (s *State) Refresh(name string) []shard.Record {
	g := s.groups[name]
	if g == nil || !s.isStale(g) {
		return nil
	}
	gone := make(map[rows.TopicID]bool)
	for _, share := range g.shares {
		for id := range share {
			if _, ok := s.topics.Partitions(id); !ok {
				gone[id] = true
			}
		}
	}
	records, _ := s.rebalance(name, g.owner, nil, gone)
	return records
}
