package group

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

const week = 7 * 24 * time.Hour

// idling is a state whose groups go after a week, unless they are in held; its log
// survives it.
type idling struct {
	*State
	t    *testing.T
	held map[string]bool
	log  []shard.Record
	gone []string
}

func newIdling(t *testing.T, now time.Time) *idling {
	i := &idling{t: t, held: map[string]bool{}}
	i.load(now)
	return i
}

// load is another owner of the shard.
func (i *idling) load(now time.Time) {
	cfg := testConfig
	cfg.IdleTimeout = week
	cfg.Expired = func(group string) { i.gone = append(i.gone, group) }
	i.State = NewState(cfg, topicCounts{topic(1): 4}, now)
	i.ExpireUnless(func(group string) bool { return i.held[group] })
	apply(i.State, i.log)
}

func (i *idling) write(records []shard.Record, err error) {
	i.t.Helper()
	require.NoError(i.t, err)
	i.log = append(i.log, records...)
	apply(i.State, records)
}

func (i *idling) until(until time.Time) {
	for next := i.NextDue(); !next.IsZero() && !next.After(until); next = i.NextDue() {
		i.write(i.Due(next), nil)
	}
}

func TestIdleGroupsGo(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	i := newIdling(t, now)
	require.True(t, i.NextDue().IsZero(), "there is nothing to look for")
	records, _, err := i.Join(now, anybody, "read", "m", []rows.TopicID{topic(1)})
	i.write(records, err)
	i.write(i.Claim(anybody, "committed"))
	i.held["committed"] = true
	i.write(i.Claim(anybody, "other"))

	// A member that leaves without a commit leaves a group with nothing to keep.
	i.write(i.Leave(anybody, "read", "m"))
	i.until(now.Add(week - time.Hour))
	require.Len(t, i.groups, 3, "not yet")
	require.Equal(t, "key_a", i.Owner("read"))
	i.until(now.Add(week + 2*time.Hour))
	require.Equal(t, []string{"committed"}, keys(i.groups))
	require.ElementsMatch(t, []string{"read", "other"}, i.gone)
	i.until(now.Add(100 * week))
	require.Equal(t, "key_a", i.Owner("committed"), "what has committed stays, however long it is idle")

	// The name is free, and no generation comes twice.
	later := now.Add(100 * week)
	records, got, err := i.Join(later, Caller{Owner: "key_b"}, "read", "m", []rows.TopicID{topic(1)})
	i.write(records, err)
	require.EqualValues(t, 3, got.Generation)

	// Nor does a group go that has a member.
	for end := later.Add(2 * week); later.Before(end); later = later.Add(5 * time.Second) {
		i.until(later)
		_, known, err := i.Heartbeat(later, Caller{Owner: "key_b"}, "read", "m")
		require.NoError(t, err)
		require.True(t, known)
	}
	require.Len(t, i.groups, 2)
}

// How long a group has been idle counts over owners of its shard, and from the
// beginning once it was not.
func TestIdleTimeIsKept(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	i := newIdling(t, now)
	i.write(i.Claim(anybody, "g"))
	i.until(now)
	for day := range 7 {
		require.Equal(t, []string{"g"}, keys(i.groups), "day %d", day)
		now = now.Add(24 * time.Hour)
		i.load(now)
		i.until(now)
	}
	require.Empty(t, i.groups)

	i.write(i.Claim(anybody, "g"))
	i.until(now.Add(6 * 24 * time.Hour))
	i.held["g"] = true // it commits
	i.until(now.Add(6*24*time.Hour + 2*time.Hour))
	delete(i.held, "g") // and what it has read is deleted
	now = now.Add(week + 24*time.Hour)
	i.load(now)
	i.until(now)
	require.Equal(t, "key_a", i.Owner("g"))
	i.until(now.Add(week))
	require.Empty(t, i.groups)
	require.Equal(t, []string{"g", "g"}, i.gone)
}

// However many there are, a write is not longer than others.
func TestManyIdleGroupsAreSeveralWrites(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	i := newIdling(t, now)
	for n := range 1200 {
		i.setGroup("g"+strconv.Itoa(n), int64(n))
	}
	for next := i.NextDue(); len(i.groups) > 0 && next.Before(now.Add(2*week)); next = i.NextDue() {
		records := i.Due(next)
		require.LessOrEqual(t, len(records), evictAtOnce+1)
		apply(i.State, records)
	}
	require.Empty(t, i.groups)
	require.EqualValues(t, 1199, i.floor)
}

// setGroup makes a group that is somebody's.
func (s *State) setGroup(name string, generation int64) {
	s.Apply(groupRecord(name, anybody.Owner, generation))
}

// What is not written is taken back.
func TestIdlenessIsTakenBack(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	i := newIdling(t, now)
	i.write(i.Claim(anybody, "g"))
	records := i.Due(now)
	require.Len(t, records, 1)
	undo := i.Apply(records[0])
	require.NotZero(t, i.groups["g"].idleSinceMs)
	undo()
	require.Zero(t, i.groups["g"].idleSinceMs)
}

// Without a timeout, or anybody to say what is held, groups stay.
func TestGroupsStayWithoutATimeout(t *testing.T) {
	s := NewState(testConfig, topicCounts{}, time.Unix(0, 0))
	s.ExpireUnless(func(string) bool { return false })
	s.setGroup("g", 1)
	require.True(t, s.NextDue().IsZero())
	require.Empty(t, s.Due(time.Unix(0, 0).Add(100*week)))
}

func keys(groups map[string]*group) []string {
	var names []string
	for name := range groups {
		names = append(names, name)
	}
	return names
}
