package group

import (
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/assign"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// Topics is what there is to share out. It does not block.
type Topics interface {
	// Partitions returns how many partitions a topic has; ok is false when it is
	// not known: it may be gone, or newer than what is known.
	Partitions(id rows.TopicID) (n int32, ok bool)
}

// Config bounds groups.
type Config struct {
	// MemberTimeout is how long a member may not be heard of.
	MemberTimeout time.Duration
	// ExpireInterval is how often overdue members are looked for.
	ExpireInterval time.Duration
	// MaxMembers limits the members of a group.
	MaxMembers int
	// MaxGroups limits the groups of a shard. They stay until they are deleted, or
	// idle for IdleTimeout, see ExpireUnless; 0 is for ever.
	MaxGroups   int
	IdleTimeout time.Duration
	// Evicted, if not nil, is told of members that were not heard of, before the
	// records with which they go are written.
	Evicted func(group string, members int)
	// Expired, if not nil, is told of groups that were idle for too long, likewise.
	Expired func(group string)
}

// State is the groups of one shard.
type State struct {
	cfg    Config
	topics Topics
	groups map[string]*group
	// floor is the highest generation of the groups that were deleted, where those
	// of new groups begin. floor <= generation of every group that began since.
	floor int64
	// members counts those of all groups.
	members int
	// check is when overdue members are looked for next; it counts only while
	// there are members.
	check time.Time
	// look is when idle groups are looked for next, and holds what keeps one.
	look  time.Time
	holds func(group string) bool
}

// group is one group. Only heard is no part of the records.
type group struct {
	// owner is the id of a key, empty while the group is nobody's.
	owner      string
	generation int64
	// idleSinceMs is when it was first seen to have nothing left to keep, 0 while it
	// has. It may be behind by a look.
	idleSinceMs int64
	members     map[string]*member
	// shares are the members' partitions. While a log is loaded there may be
	// shares of who is not a member yet or any more.
	shares map[string]assign.Partitions
	// heard is when each member was last heard of, or when it was first missed
	// after a load.
	heard map[string]time.Time
}

// member is never changed: a new one takes its place.
type member struct {
	// owner is the id of the key that made the member.
	owner string
	// topics are ascending, each once.
	topics []rows.TopicID
}

var _ shard.Timed = (*State)(nil)

// NewState returns the state of an empty log.
func NewState(cfg Config, topics Topics, now time.Time) *State {
	return &State{cfg: cfg, topics: topics, groups: make(map[string]*group), check: now.Add(cfg.ExpireInterval), look: now}
}

// Apply makes a record part of the state.
func (s *State) Apply(r shard.Record) (undo func()) {
	switch {
	case r.Key.GetGroup() != nil:
		name, value := r.Key.GetGroup().Group, r.Value.GetGroup()
		g := s.group(name)
		owner, generation, idleSince := g.owner, g.generation, g.idleSinceMs
		g.owner, g.generation, g.idleSinceMs = value.GetOwner(), value.GetGeneration(), value.GetIdleSinceMs()
		s.tidy(name)
		return func() {
			g := s.group(name)
			g.owner, g.generation, g.idleSinceMs = owner, generation, idleSince
			s.tidy(name)
		}
	case r.Key.GetGroupFloor() != nil:
		floor := s.floor
		s.floor = r.Value.GetGroupFloor().GetGeneration()
		return func() { s.floor = floor }
	case r.Key.GetGroupMember() != nil:
		key := r.Key.GetGroupMember()
		before := s.setMember(key.Group, key.MemberId, decodeMember(r.Value.GetGroupMember()))
		return func() { s.setMember(key.Group, key.MemberId, before) }
	case r.Key.GetGroupAssignment() != nil:
		key := r.Key.GetGroupAssignment()
		before := s.setShare(key.Group, key.MemberId, decodeShare(r.Value.GetGroupAssignment()))
		return func() { s.setShare(key.Group, key.MemberId, before) }
	}
	return func() {} // of another part of the shard
}

// group returns a group, and makes it if need be.
func (s *State) group(name string) *group {
	g := s.groups[name]
	if g == nil {
		g = &group{
			members: make(map[string]*member),
			shares:  make(map[string]assign.Partitions),
			heard:   make(map[string]time.Time),
		}
		s.groups[name] = g
	}
	return g
}

// newcomer is a group of which there is no record yet.
func (s *State) newcomer() *group { return &group{generation: s.floor} }

// tidy forgets a group of which there is no record.
func (s *State) tidy(name string) {
	g := s.groups[name]
	if g.owner == "" && g.generation == 0 && len(g.members) == 0 && len(g.shares) == 0 {
		delete(s.groups, name)
	}
}

// setMember puts or removes a member and returns the one before, or nil.
func (s *State) setMember(name, id string, m *member) (before *member) {
	g := s.group(name)
	before = g.members[id]
	s.members -= len(g.members)
	if m == nil {
		delete(g.members, id)
		delete(g.heard, id)
	} else {
		g.members[id] = m
	}
	s.members += len(g.members)
	s.tidy(name)
	return before
}

// setShare puts or removes a share and returns the one before.
func (s *State) setShare(name, id string, share assign.Partitions) (before assign.Partitions) {
	g := s.group(name)
	before = g.shares[id]
	if len(share) == 0 {
		delete(g.shares, id)
	} else {
		g.shares[id] = share
	}
	s.tidy(name)
	return before
}

// Owner returns the id of the key that a group belongs to; empty while it is
// nobody's.
func (s *State) Owner(name string) string {
	if g := s.groups[name]; g != nil {
		return g.owner
	}
	return ""
}

// Check returns ErrNotOwner unless the caller may use a group.
func (s *State) Check(caller Caller, name string) error {
	if g := s.groups[name]; g != nil && !caller.is(g.owner) {
		return ErrNotOwner.WithMessage("the group %q belongs to another key", name)
	}
	return nil
}

// Claim returns the records that make a group the caller's, none when it is
// somebody's already. ErrNotOwner, ErrTooManyGroups.
func (s *State) Claim(caller Caller, name string) ([]shard.Record, error) {
	if err := s.Check(caller, name); err != nil {
		return nil, err
	}
	g := s.groups[name]
	switch {
	case g == nil && len(s.groups) >= s.cfg.MaxGroups:
		return nil, ErrTooManyGroups
	case g == nil:
		return []shard.Record{groupRecord(name, caller.Owner, s.floor)}, nil
	case g.owner == "":
		return []shard.Record{groupRecord(name, caller.Owner, g.generation)}, nil
	}
	return nil, nil
}

// Delete returns the records with which a group goes: it is nobody's afterwards,
// and if it comes again its generations go on above those that it had.
// ErrNotOwner, ErrUnknownGroup, ErrGroupNotEmpty.
func (s *State) Delete(caller Caller, name string) ([]shard.Record, error) {
	if err := s.Check(caller, name); err != nil {
		return nil, err
	}
	g := s.groups[name]
	switch {
	case g == nil:
		return nil, ErrUnknownGroup.WithMessage("the group %q does not exist", name)
	case len(g.members) > 0:
		return nil, ErrGroupNotEmpty.WithMessage("the group %q still has members (%d); it can be deleted when they have left", name, len(g.members))
	}
	records := []shard.Record{groupGone(name)}
	if g.generation > s.floor {
		records = append(records, floorRecord(g.generation))
	}
	return records, nil
}
