package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/coordinator/internal/assign"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

var testConfig = Config{MemberTimeout: 10 * time.Second, ExpireInterval: time.Second, MaxMembers: 4, MaxGroups: 3}

// topicCounts is a catalog that a test sets.
type topicCounts map[rows.TopicID]int32

func (c topicCounts) Partitions(id rows.TopicID) (int32, bool) {
	n, ok := c[id]
	return n, ok
}

func topic(n int) rows.TopicID { return rows.TopicID{15: byte(n)} }

// machine is a State as its shard runs it, beside a model of who must be a
// member.
type machine struct {
	state  *State
	topics topicCounts
	now    time.Time
	// log is the last record of each key, in the order in which they were written.
	log []shard.Record

	groups map[string]*modelGroup
	// floor is the highest generation of the groups that were deleted.
	floor int64
	// used are the generations that each group has had, in all of its lives.
	used map[string]map[int64]bool
}

type modelGroup struct {
	owner      string
	generation int64
	members    map[string]*modelMember
}

type modelMember struct {
	owner  string
	topics []rows.TopicID
	// evictable is when the member may go at the earliest.
	evictable time.Time
}

func newMachine() *machine {
	m := &machine{topics: topicCounts{}, now: time.Unix(1000, 0), groups: make(map[string]*modelGroup), used: make(map[string]map[int64]bool)}
	for i := range 3 {
		m.topics[topic(i)] = int32(i + 1)
	}
	m.state = NewState(testConfig, m.topics, m.now)
	return m
}

// write applies records, or applies them and takes them back.
func (m *machine) write(t *rapid.T, records []shard.Record, fails bool) {
	var undos []func()
	before := snapshot(m.state)
	for _, r := range records {
		undos = append(undos, m.state.Apply(r))
	}
	if fails {
		for _, undo := range slices.Backward(undos) {
			undo()
		}
		require.Empty(t, cmp.Diff(before, snapshot(m.state)), "after the undos")
		return
	}
	for _, r := range records {
		m.log = slices.DeleteFunc(m.log, func(old shard.Record) bool { return proto.Equal(old.Key, r.Key) })
		m.log = append(m.log, r)
	}
}

// groupState is what of a group follows from records.
type groupState struct {
	Owner      string
	Generation int64
	Members    map[string]string
	Shares     map[string]assign.Partitions
}

func snapshot(s *State) map[string]groupState {
	all := map[string]groupState{"floor of all": {Generation: s.floor}}
	for name, g := range s.groups {
		members := make(map[string]string)
		for id, m := range g.members {
			members[id] = fmt.Sprint(m.owner, m.topics)
		}
		all[name] = groupState{Owner: g.owner, Generation: g.generation, Members: members, Shares: maps.Clone(g.shares)}
	}
	return all
}

func (m *machine) group(name string) *modelGroup {
	g := m.groups[name]
	if g == nil {
		g = &modelGroup{members: make(map[string]*modelMember)}
		m.groups[name] = g
	}
	return g
}

// begin makes a group somebody's, if it is nobody's.
func (m *machine) begin(g *modelGroup, caller Caller) {
	if g.owner == "" {
		g.owner, g.generation = caller.Owner, m.floor
	}
}

// rebalanced counts a rebalance. A generation that a member of an earlier life may
// still work on must not come again.
func (m *machine) rebalanced(t *rapid.T, name string) {
	g := m.groups[name]
	g.generation++
	if m.used[name] == nil {
		m.used[name] = make(map[int64]bool)
	}
	require.False(t, m.used[name][g.generation], "%s has generation %d twice", name, g.generation)
	m.used[name][g.generation] = true
}

func (m *machine) drawGroup(t *rapid.T) string {
	return rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group")
}

func drawCaller(t *rapid.T) Caller {
	return Caller{
		Owner: rapid.SampledFrom([]string{"key_a", "key_b"}).Draw(t, "owner"),
		Admin: rapid.IntRange(0, 3).Draw(t, "admin") == 0,
	}
}

func drawMember(t *rapid.T) string {
	return rapid.SampledFrom([]string{"m1", "m2", "m3", "m4", "m5"}).Draw(t, "member")
}

func drawFails(t *rapid.T) bool { return rapid.IntRange(0, 5).Draw(t, "fails") == 0 }

func (m *machine) Join(t *rapid.T) {
	name, caller, id := m.drawGroup(t), drawCaller(t), drawMember(t)
	topics := []rows.TopicID{}
	for i := range 3 {
		if rapid.Bool().Draw(t, "subscribes") {
			topics = append(topics, topic(i))
		}
	}
	g := m.group(name)
	records, got, err := m.state.Join(m.now, caller, name, id, slices.Concat(topics, topics))
	known := g.members[id]
	switch {
	case g.owner != "" && g.owner != caller.Owner && !caller.Admin:
		require.ErrorIs(t, err, ErrNotOwner)
		return
	case known != nil && known.owner != caller.Owner && !caller.Admin:
		require.ErrorIs(t, err, ErrNotMembersKey)
		return
	case known == nil && len(g.members) == testConfig.MaxMembers:
		require.ErrorIs(t, err, ErrGroupFull)
		return
	}
	require.NoError(t, err)
	fails := drawFails(t)
	m.write(t, records, fails)
	if known != nil {
		// It was heard of, whatever became of the write.
		known.evictable = m.now.Add(testConfig.MemberTimeout)
	}
	if fails {
		return
	}
	m.begin(g, caller)
	if known == nil {
		g.members[id] = &modelMember{owner: caller.Owner, topics: topics, evictable: m.now.Add(testConfig.MemberTimeout)}
		m.rebalanced(t, name)
	} else if !slices.Equal(known.topics, topics) {
		known.topics = topics
		m.rebalanced(t, name)
	}
	require.Equal(t, g.generation, got.Generation)
	has, err := m.state.Membership(caller, name, id)
	require.NoError(t, err)
	require.Equal(t, got.Generation, has.Generation)
	require.True(t, maps.EqualFunc(got.Partitions, has.Partitions, slices.Equal), "%v %v", got.Partitions, has.Partitions)
}

func (m *machine) Heartbeat(t *rapid.T) {
	name, caller, id := m.drawGroup(t), drawCaller(t), drawMember(t)
	g := m.group(name)
	generation, known, err := m.state.Heartbeat(m.now, caller, name, id)
	member := g.members[id]
	switch {
	case g.owner != "" && g.owner != caller.Owner && !caller.Admin:
		require.ErrorIs(t, err, ErrNotOwner)
		return
	case member != nil && member.owner != caller.Owner && !caller.Admin:
		require.ErrorIs(t, err, ErrNotMembersKey)
		return
	}
	require.NoError(t, err)
	require.Equal(t, g.generation, generation)
	require.Equal(t, member != nil, known)
	if member != nil {
		member.evictable = m.now.Add(testConfig.MemberTimeout)
	}
}

func (m *machine) Leave(t *rapid.T) {
	name, caller, id := m.drawGroup(t), drawCaller(t), drawMember(t)
	g := m.group(name)
	records, err := m.state.Leave(caller, name, id)
	member := g.members[id]
	switch {
	case g.owner != "" && g.owner != caller.Owner && !caller.Admin:
		require.ErrorIs(t, err, ErrNotOwner)
		return
	case member != nil && member.owner != caller.Owner && !caller.Admin:
		require.ErrorIs(t, err, ErrNotMembersKey)
		return
	}
	require.NoError(t, err)
	if member == nil {
		require.Empty(t, records)
		return
	}
	fails := drawFails(t)
	m.write(t, records, fails)
	if !fails {
		delete(g.members, id)
		m.rebalanced(t, name)
	} else {
		// It is back, and has its time again.
		member.evictable = m.now.Add(testConfig.MemberTimeout)
	}
}

func (m *machine) Commit(t *rapid.T) {
	name, caller := m.drawGroup(t), drawCaller(t)
	g := m.group(name)
	records, err := m.state.Claim(caller, name)
	if g.owner != "" && g.owner != caller.Owner && !caller.Admin {
		require.ErrorIs(t, err, ErrNotOwner)
		return
	}
	require.NoError(t, err)
	require.Equal(t, g.owner != "", len(records) == 0)
	m.write(t, records, false)
	m.begin(g, caller)
}

// Delete deletes a group, if it has no members.
func (m *machine) Delete(t *rapid.T) {
	name, caller := m.drawGroup(t), drawCaller(t)
	g := m.group(name)
	records, err := m.state.Delete(caller, name)
	switch {
	case g.owner == "":
		require.ErrorIs(t, err, ErrUnknownGroup)
		return
	case g.owner != caller.Owner && !caller.Admin:
		require.ErrorIs(t, err, ErrNotOwner)
		return
	case len(g.members) > 0:
		require.ErrorIs(t, err, ErrGroupNotEmpty)
		return
	}
	require.NoError(t, err)
	fails := drawFails(t)
	m.write(t, records, fails)
	if fails {
		return
	}
	m.floor = max(m.floor, g.generation)
	delete(m.groups, name)
	require.NotContains(t, m.state.groups, name)
}

// Time has the clock go on, and what is due done; it may be done late.
func (m *machine) Time(t *rapid.T) {
	steps := rapid.IntRange(1, 12).Draw(t, "steps")
	late := rapid.IntRange(0, 3).Draw(t, "late") == 0
	for i := range steps {
		m.now = m.now.Add(500 * time.Millisecond)
		if late && i < steps-1 {
			continue
		}
		if next := m.state.NextDue(); next.IsZero() || next.After(m.now) {
			continue
		}
		m.due(t)
	}
}

func (m *machine) due(t *rapid.T) {
	held := m.now.Sub(m.state.check)
	if held > testConfig.ExpireInterval {
		for _, g := range m.groups {
			for _, member := range g.members {
				// Nobody looked, so nobody is late for it.
				member.evictable = member.evictable.Add(held)
			}
		}
	}
	records := m.state.Due(m.now)
	m.write(t, records, false)
	for name, g := range m.groups {
		evicted := false
		for id, member := range g.members {
			live := m.state.groups[name]
			if live.members[id] != nil {
				continue
			}
			require.False(t, member.evictable.After(m.now), "%s of %s went too early", id, name)
			delete(g.members, id)
			evicted = true
		}
		if evicted {
			m.rebalanced(t, name)
		}
	}
}

// Reload has another owner make the state of the log, whose compaction may have
// dropped what removes records.
func (m *machine) Reload(t *rapid.T) {
	before := snapshot(m.state)
	if rapid.Bool().Draw(t, "tombstones are over") {
		m.log = slices.DeleteFunc(m.log, func(r shard.Record) bool { return r.Value == nil })
	}
	m.state = NewState(testConfig, m.topics, m.now)
	for _, r := range m.log {
		m.state.Apply(r)
	}
	require.Empty(t, cmp.Diff(before, snapshot(m.state)))
	for _, g := range m.groups {
		for _, member := range g.members {
			member.evictable = m.now.Add(testConfig.MemberTimeout)
		}
	}
}

// Topic has one grow, or go for good.
func (m *machine) Topic(t *rapid.T) {
	id := topic(rapid.IntRange(0, 2).Draw(t, "topic"))
	if rapid.IntRange(0, 3).Draw(t, "goes") == 0 {
		delete(m.topics, id)
	} else if _, ok := m.topics[id]; ok {
		m.topics[id] += rapid.Int32Range(0, 2).Draw(t, "grows by")
	}
	m.Follow(t)
}

// Follow has the groups rebalance that have to.
func (m *machine) Follow(t *rapid.T) {
	for _, name := range m.state.Stale() {
		records := m.state.Refresh(name)
		require.NotEmpty(t, records)
		m.write(t, records, false)
		m.rebalanced(t, name)
	}
	require.Empty(t, m.state.Stale())
}

// Check compares the state with the model.
func (m *machine) Check(t *rapid.T) {
	for name, g := range m.groups {
		live := m.state.groups[name]
		if live == nil {
			require.Empty(t, g.owner)
			require.Empty(t, g.members)
			continue
		}
		require.Equal(t, g.owner, live.owner)
		require.Equal(t, g.generation, live.generation, "generation of %s", name)
		require.ElementsMatch(t, slices.Collect(maps.Keys(g.members)), slices.Collect(maps.Keys(live.members)))
		for id := range live.shares {
			require.Contains(t, live.members, id)
		}
		// Whole and disjoint.
		owners := make(map[rows.TopicID]map[int32]string)
		for id, share := range live.shares {
			for topic, list := range share {
				require.Contains(t, g.members[id].topics, topic)
				for _, p := range list {
					require.Less(t, p, m.topics[topic])
					require.Empty(t, owners[topic][p], "two members have %s/%d", topic, p)
					if owners[topic] == nil {
						owners[topic] = make(map[int32]string)
					}
					owners[topic][p] = id
				}
			}
		}
		for _, member := range g.members {
			for _, topic := range member.topics {
				require.Len(t, owners[topic], int(m.topics[topic]))
			}
		}
	}
}

func TestGroupsBehaveAsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		actions := rapid.StateMachineActions(&actions{m})
		t.Repeat(actions)
	})
}

// actions are what rapid does to a machine.
type actions struct{ m *machine }

func (a *actions) Join(t *rapid.T)      { a.m.Join(t) }
func (a *actions) Renew(t *rapid.T)     { a.m.Join(t) }
func (a *actions) Heartbeat(t *rapid.T) { a.m.Heartbeat(t) }
func (a *actions) Leave(t *rapid.T)     { a.m.Leave(t) }
func (a *actions) Commit(t *rapid.T)    { a.m.Commit(t) }
func (a *actions) Delete(t *rapid.T)    { a.m.Delete(t) }
func (a *actions) Empty(t *rapid.T)     { a.m.Leave(t) }
func (a *actions) Time(t *rapid.T)      { a.m.Time(t) }
func (a *actions) Reload(t *rapid.T)    { a.m.Reload(t) }
func (a *actions) Topic(t *rapid.T)     { a.m.Topic(t) }
func (a *actions) Check(t *rapid.T)     { a.m.Check(t) }
