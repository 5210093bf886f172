package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

var anybody = Caller{Owner: "key_a"}

// joined is a state in which members have joined the group "g" at a time.
func joined(t *testing.T, topics topicCounts, now time.Time, ids ...string) (*State, []shard.Record) {
	t.Helper()
	s := NewState(testConfig, topics, now)
	var log []shard.Record
	for _, id := range ids {
		records, _, err := s.Join(now, anybody, "g", id, []rows.TopicID{topic(1)})
		require.NoError(t, err)
		log = append(log, records...)
		apply(s, records)
	}
	return s, log
}

func apply(s *State, records []shard.Record) {
	for _, r := range records {
		s.Apply(r)
	}
}

// look does what is due, on time, until a moment.
func look(s *State, until time.Time) {
	for next := s.NextDue(); !next.IsZero() && !next.After(until); next = s.NextDue() {
		apply(s, s.Due(next))
	}
}

func beat(t *testing.T, s *State, now time.Time, id string) (generation int64, known bool) {
	t.Helper()
	generation, known, err := s.Heartbeat(now, anybody, "g", id)
	require.NoError(t, err)
	return generation, known
}

func TestWhoIsNotHeardOfLosesItsPartitions(t *testing.T) {
	start := time.Unix(0, 0)
	s, _ := joined(t, topicCounts{topic(1): 4}, start, "a", "b")
	look(s, start.Add(9*time.Second))
	generation, known := beat(t, s, start.Add(9*time.Second), "a")
	require.True(t, known)
	require.EqualValues(t, 2, generation)

	look(s, start.Add(12*time.Second))
	generation, known = beat(t, s, start.Add(12*time.Second), "b")
	require.False(t, known)
	require.EqualValues(t, 3, generation)
	got, err := s.Membership(anybody, "g", "a")
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 2, 3}, got.Partitions[topic(1)])
	_, err = s.Membership(anybody, "g", "b")
	require.ErrorIs(t, err, ErrUnknownMember)

	look(s, start.Add(time.Minute))
	require.Zero(t, s.members)
	require.True(t, s.NextDue().IsZero(), "nobody is left to look for")
	generation, known = beat(t, s, start.Add(time.Minute), "a")
	require.False(t, known)
	require.EqualValues(t, 4, generation)

	// The generation goes on, and time has not stood still for a new member.
	now := start.Add(time.Hour)
	records, membership, err := s.Join(now, anybody, "g", "a", []rows.TopicID{topic(1)})
	require.NoError(t, err)
	require.EqualValues(t, 5, membership.Generation)
	apply(s, records)
	look(s, now.Add(12*time.Second))
	require.Zero(t, s.members)
}

func TestALateLookEvictsNobody(t *testing.T) {
	start := time.Unix(0, 0)
	s, _ := joined(t, topicCounts{topic(1): 4}, start, "a")
	look(s, start.Add(5*time.Second))
	require.Empty(t, s.Due(start.Add(time.Hour)), "the process stood still")
	look(s, start.Add(time.Hour+4*time.Second))
	require.Equal(t, 1, s.members)
	look(s, start.Add(time.Hour+7*time.Second))
	require.Zero(t, s.members)
}

func TestALoadGivesEverybodyTime(t *testing.T) {
	start := time.Unix(0, 0)
	_, log := joined(t, topicCounts{topic(1): 4}, start, "a", "b")
	later := start.Add(time.Hour)
	s := NewState(testConfig, topicCounts{topic(1): 4}, later)
	apply(s, log)
	look(s, later.Add(10*time.Second))
	require.Equal(t, 2, s.members)
	look(s, later.Add(12*time.Second))
	require.Zero(t, s.members)
}

func TestManyEvictionsAreSeveralWrites(t *testing.T) {
	start := time.Unix(0, 0)
	cfg := testConfig
	cfg.MaxMembers = 1000
	evicted := 0
	cfg.Evicted = func(_ string, members int) { evicted += members }
	s := NewState(cfg, topicCounts{topic(1): 4}, start)
	for _, name := range []string{"g", "h", "i"} {
		for i := range 400 {
			s.setMember(name, string(rune('a'+i)), &member{owner: "key_a"})
		}
	}
	look(s, start.Add(5*time.Second))
	require.Empty(t, s.Due(start.Add(12*time.Second)), "late, so they have some more time")
	now := s.NextDue()
	for now.Before(start.Add(25*time.Second)) && s.members > 0 {
		records := s.Due(now)
		require.LessOrEqual(t, len(records), 900)
		apply(s, records)
		now = s.NextDue()
	}
	require.Zero(t, s.members)
	require.Equal(t, 1200, evicted)
}

func TestGroupsAreLimited(t *testing.T) {
	s, _ := joined(t, topicCounts{topic(1): 4}, time.Unix(0, 0), "a")
	for i := range testConfig.MaxGroups + 2 {
		name := string(rune('h' + i))
		records, err := s.Claim(anybody, name)
		if i < testConfig.MaxGroups-1 {
			require.NoError(t, err)
			apply(s, records)
			continue
		}
		require.ErrorIs(t, err, ErrTooManyGroups)
		_, _, err = s.Join(time.Unix(0, 0), anybody, name, "a", nil)
		require.ErrorIs(t, err, ErrTooManyGroups)
	}
	// Those that are there go on, and one that goes makes room.
	_, err := s.Claim(anybody, "g")
	require.NoError(t, err)
	gone, err := s.Delete(anybody, "h")
	require.NoError(t, err)
	apply(s, gone)
	_, err = s.Claim(anybody, "new")
	require.NoError(t, err)
}

// Who takes a shard over may not know of the newest topics yet.
func TestABlindOwnerTakesNothingAway(t *testing.T) {
	start := time.Unix(0, 0)
	_, log := joined(t, topicCounts{topic(1): 4}, start, "a", "b")
	for name, topics := range map[string]topicCounts{"behind by a topic": {}, "behind by a growth": {topic(1): 2}} {
		s := NewState(testConfig, topics, start)
		apply(s, log)
		records, got, err := s.Join(start, anybody, "g", "c", []rows.TopicID{topic(1)})
		require.NoError(t, err, name)
		require.Len(t, got.Partitions[topic(1)], 1, name)
		apply(s, records)
		total := 0
		for _, share := range s.groups["g"].shares {
			total += share.Count()
		}
		require.Equal(t, 4, total, name)
	}
	// Once it is sure, it does.
	s := NewState(testConfig, topicCounts{}, start)
	apply(s, log)
	require.Equal(t, []string{"g"}, s.Stale())
	apply(s, s.Refresh("g"))
	require.Empty(t, s.Stale())
	require.Empty(t, s.groups["g"].shares)
}
