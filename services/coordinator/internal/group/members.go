package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/assign"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// Membership is what a member has.
type Membership struct {
	Generation int64
	// Partitions are not to be changed.
	Partitions assign.Partitions
}

// Join returns the records with which somebody becomes a member or subscribes
// anew, and what it then has. A group that is nobody's becomes the caller's.
// ErrNotOwner, ErrNotMembersKey, ErrGroupFull, ErrTooManyGroups.
func (s *State) Join(now time.Time, caller Caller, name, id string, topics []rows.TopicID) ([]shard.Record, Membership, error) {
	if err := s.Check(caller, name); err != nil {
		return nil, Membership{}, err
	}
	g := s.groups[name]
	if g == nil {
		if len(s.groups) >= s.cfg.MaxGroups {
			return nil, Membership{}, ErrTooManyGroups
		}
		g = s.newcomer()
	}
	owner := g.owner
	if owner == "" {
		owner = caller.Owner
	}
	joined := &member{owner: caller.Owner, topics: sortedSet(topics)}
	known := g.members[id]
	switch {
	case known == nil && len(g.members) >= s.cfg.MaxMembers:
		return nil, Membership{}, ErrGroupFull.WithMessage("the group %q has %d members, as many as it may have", name, len(g.members))
	case known == nil:
	case !caller.is(known.owner):
		return nil, Membership{}, ErrNotMembersKey.WithMessage("the member %q belongs to another key", id)
	default:
		joined.owner = known.owner
		if slices.Equal(known.topics, joined.topics) {
			g.heard[id] = now
			return nil, Membership{g.generation, g.shares[id]}, nil
		}
	}
	records, shares := s.rebalance(name, owner, map[string]*member{id: joined}, nil)
	if known != nil {
		g.heard[id] = now
	}
	if s.members == 0 {
		s.check = now.Add(s.cfg.ExpireInterval)
	}
	return records, Membership{g.generation + 1, shares[id]}, nil
}

func sortedSet(topics []rows.TopicID) []rows.TopicID {
	set := slices.SortedFunc(slices.Values(topics), func(a, b rows.TopicID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(set)
}

// find returns a group and its member for a caller; both may be nil.
// ErrNotOwner, ErrNotMembersKey.
func (s *State) find(caller Caller, name, id string) (*group, *member, error) {
	if err := s.Check(caller, name); err != nil {
		return nil, nil, err
	}
	g := s.groups[name]
	if g == nil {
		return nil, nil, nil
	}
	m := g.members[id]
	if m != nil && !caller.is(m.owner) {
		return nil, nil, ErrNotMembersKey.WithMessage("the member %q belongs to another key", id)
	}
	return g, m, nil
}

// Heartbeat notes that a member was heard of. It returns the group's generation,
// and whether there is such a member. It changes no record.
func (s *State) Heartbeat(now time.Time, caller Caller, name, id string) (generation int64, known bool, err error) {
	g, m, err := s.find(caller, name, id)
	if g == nil || err != nil {
		return 0, false, err
	}
	if m != nil {
		g.heard[id] = now
	}
	return g.generation, m != nil, nil
}

// Leave returns the records with which a member goes; none when it is none.
func (s *State) Leave(caller Caller, name, id string) ([]shard.Record, error) {
	g, m, err := s.find(caller, name, id)
	if m == nil || err != nil {
		return nil, err
	}
	records, _ := s.rebalance(name, g.owner, map[string]*member{id: nil}, nil)
	return records, nil
}

// Membership returns what a member has. ErrUnknownMember.
func (s *State) Membership(caller Caller, name, id string) (Membership, error) {
	g, m, err := s.find(caller, name, id)
	switch {
	case err != nil:
		return Membership{}, err
	case m == nil:
		return Membership{}, ErrUnknownMember.WithMessage("the group %q has no member %q", name, id)
	}
	return Membership{g.generation, g.shares[id]}, nil
}

// Claimant is a member that commits, with the generation that it works on.
type Claimant struct {
	ID         string
	Generation int64
}

// CheckHolds returns ErrStaleMember unless a member has a partition, in the
// generation that it names: whoever has had it since may have gone on further.
func (s *State) CheckHolds(caller Caller, name string, c Claimant, topic rows.TopicID, partition int32) error {
	g, m, err := s.find(caller, name, c.ID)
	switch {
	case err != nil:
		return err
	case m == nil:
		return ErrStaleMember.WithMessage("the group %q has no member %q any more", name, c.ID)
	case g.generation != c.Generation:
		return ErrStaleMember.WithMessage("the group %q is at generation %d, not %d", name, g.generation, c.Generation)
	}
	if _, ok := slices.BinarySearch(g.shares[c.ID][topic], partition); !ok {
		return ErrStaleMember.WithMessage("partition %d is not assigned to member %q", partition, c.ID)
	}
	return nil
}
