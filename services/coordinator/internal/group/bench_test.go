package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
)

// BenchmarkJoin has a member join, and leave, a group of 1,000 with 10,000
// partitions.
func BenchmarkJoin(b *testing.B) {
	cfg := testConfig
	cfg.MaxMembers = 2000
	s := NewState(cfg, topicCounts{topic(1): 10_000}, time.Unix(0, 0))
	now := time.Unix(0, 0)
	join := func(id string) {
		records, _, err := s.Join(now, anybody, "g", id, []rows.TopicID{topic(1)})
		require.NoError(b, err)
		apply(s, records)
	}
	for i := range 1000 {
		join(fmt.Sprintf("m%d", i))
	}
	for b.Loop() {
		join("one more")
		records, err := s.Leave(anybody, "g", "one more")
		require.NoError(b, err)
		apply(s, records)
	}
}
