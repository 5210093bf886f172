package node

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// A partition that keeps its records for good and is fenced without end, as a
// shard's is by each owner, does not grow by that: neither in memory nor on disk.
func TestFencesDoNotPileUp(t *testing.T) {
	disk := memfs.New()
	topic := uuid.New()
	r := start(t, options(disk))
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	_, err := appendTo(p, batchOf(t, "first"))
	require.NoError(t, err)
	for epoch := range int64(2000) {
		_, err := p.Fence(t.Context(), epoch)
		require.NoError(t, err)
	}
	_, err = appendTo(p, batchOf(t, "last"))
	require.NoError(t, err)
	entries := 0
	require.NoError(t, p.await(false, func(r *replica.Replica) error {
		entries = r.Log().JournalEntries()
		return nil
	}))
	require.LessOrEqual(t, entries, 300)
	journal, err := disk.Stat(r.folder(p.key) + "/journal")
	require.NoError(t, err)
	require.Less(t, journal.Size, int64(64<<10))
	after := disk.Crash(nil)
	require.NoError(t, r.stop())

	again := start(t, options(after)).partition(topic, 0)
	require.Equal(t, []string{"first", "last"}, values(t, again))
	var fenced *replica.FencedError
	_, err = again.Fence(t.Context(), 1998)
	require.ErrorAs(t, err, &fenced)
	require.Equal(t, int64(1999), fenced.Fence)
}
