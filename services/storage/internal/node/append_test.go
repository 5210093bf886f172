package node

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/invariant"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// What an append takes until it is answered is all that its caller pays for here:
// the append, its answer, and a channel, which the next one takes over.
func TestAnAppendIsThreeAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("pools lose things under the race detector")
	}
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	batches := [][]byte{batchOf(t, "x")}

	release := occupy(p)
	defer release()
	var waiting []*Appending
	allocs := testing.AllocsPerRun(100, func() {
		a, err := p.Append(t.Context(), batches, replica.NoOwner)
		if err != nil {
			t.Error(err)
		}
		waiting = append(waiting, a)
	})
	require.LessOrEqual(t, allocs, 3.0)

	// The list is the caller's: what it becomes is nothing to those who wait.
	batches[0] = nil
	release()
	for offset, a := range waiting {
		result, err := a.Wait(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, offset, result.BaseOffset)
	}
	require.Len(t, values(t, p), len(waiting))
}
