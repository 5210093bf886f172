package state_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/group"
	"github.com/sluiceio/sluice/services/coordinator/internal/offsets"
	"github.com/sluiceio/sluice/services/coordinator/internal/producers"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
	"github.com/sluiceio/sluice/services/coordinator/internal/state"
)

// Committed offsets keep their group, for as long as they are there.
func TestCommittedOffsetsKeepAGroup(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := state.New(group.NewState(group.Config{MaxGroups: 10, IdleTimeout: time.Hour}, nil, now), offsets.NewState(), producers.NewState(now))
	until := func(end time.Time) {
		for next := s.NextDue(); !next.IsZero() && !next.After(end); next = s.NextDue() {
			for _, r := range s.Due(next) {
				s.Apply(r)
			}
		}
		now = end
	}
	records, err := s.Groups.Claim(group.Caller{Owner: "key_a"}, "g")
	require.NoError(t, err)
	for _, r := range records {
		s.Apply(r)
	}
	committed := shard.Record{
		Key: &persistv1.ShardKey{Kind: &persistv1.ShardKey_GroupOffset{
			GroupOffset: &persistv1.GroupOffsetKey{Group: "g", TopicId: make([]byte, 16)},
		}},
		Value: &persistv1.ShardValue{Kind: &persistv1.ShardValue_GroupOffset{GroupOffset: &persistv1.GroupOffset{Offset: 1}}},
	}
	s.Apply(committed)
	until(now.Add(1000 * time.Hour))
	require.Equal(t, "key_a", s.Groups.Owner("g"))

	committed.Value = nil
	s.Apply(committed)
	until(now.Add(4 * time.Hour))
	require.Empty(t, s.Groups.Owner("g"))
}
