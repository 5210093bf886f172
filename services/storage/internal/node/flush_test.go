package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// With fewer syncs a power cut loses the newest records, fewer than were allowed
// to be unsynced, and nothing else; a kill loses none. A fence is synced whatever
// is set, and so is what came before it.
func TestFlushEveryRecords(t *testing.T) {
	const every = 10
	lost := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 13))
		disk := memfs.New()
		o := options(disk)
		o.FlushEveryRecords = every
		r := start(t, o)
		topic := uuid.New()
		require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
		p := r.partition(topic, 0)
		acked, safe := 0, 0
		for range 5 + rng.IntN(60) {
			_, err := appendTo(p, batchOf(t, fmt.Sprint(acked)))
			require.NoError(t, err)
			acked++
			if rng.IntN(30) == 0 {
				_, err := p.Fence(t.Context(), int64(acked))
				require.NoError(t, err)
				safe = acked
			}
		}
		killed, cut := disk.Kill(), disk.Crash(rng)
		require.NoError(t, r.stop())

		require.Len(t, values(t, start(t, options(killed)).partition(topic, 0)), acked)
		again := start(t, options(cut))
		got := values(t, again.partition(topic, 0))
		require.LessOrEqual(t, len(got), acked)
		require.Greater(t, len(got), acked-every)
		lost += acked - len(got)
		require.GreaterOrEqual(t, len(got), safe)
		for i, value := range got {
			require.Equal(t, fmt.Sprint(i), value)
		}
		result, err := appendTo(again.partition(topic, 0), batchOf(t, "after"))
		require.NoError(t, err)
		require.Equal(t, int64(len(got)), result.BaseOffset)
	}
	require.Positive(t, lost, "every append was synced: the option does nothing")
}

// What waits while a sync runs goes into one write and one sync.
func TestGroupCommit(t *testing.T) {
	var syncs atomic.Int64
	r := start(t, options(faultfs.New(memfs.New(), func(op faultfs.Op, _ string) error {
		if op == faultfs.Datasync {
			syncs.Add(1)
		}
		return nil
	})))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"segment.bytes": "1000000"}, 1)}))
	p := r.partition(topic, 0)
	_, err := appendTo(p, batchOf(t, "first"))
	require.NoError(t, err)

	release := occupy(p)
	defer release()
	var waiting []*Appending
	for i := range 100 {
		a, err := p.Append(context.Background(), [][]byte{batchOf(t, fmt.Sprint(i))}, replica.NoOwner)
		require.NoError(t, err)
		waiting = append(waiting, a)
	}
	r.chores.Wait() // zeros that are written ahead are synced too
	before := syncs.Load()
	release()
	for i, a := range waiting {
		result, err := a.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1+i), result.BaseOffset)
	}
	r.chores.Wait()
	require.LessOrEqual(t, syncs.Load()-before, int64(3))
}
