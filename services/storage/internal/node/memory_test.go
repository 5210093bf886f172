package node

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// The bytes of an append count until it is answered, whatever the answer; an
// append that finds no room waits for it, as long as its caller does.
func TestMemoryOfAppendsIsBounded(t *testing.T) {
	o := options(memfs.New())
	batch := func() []byte { return batchOf(t, "x") }
	size := int64(len(batch()))
	o.MaxAppendBytes = 2 * size
	r := start(t, o)
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)

	release := occupy(p)
	defer release()
	var waiting []*Appending
	for range 2 {
		a, err := p.Append(t.Context(), [][]byte{batch()}, replica.NoOwner)
		require.NoError(t, err)
		waiting = append(waiting, a)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller hung up"))
	_, err := p.Append(ctx, [][]byte{batch()}, replica.NoOwner)
	require.ErrorIs(t, err, ErrOverloaded)
	require.False(t, r.memory.TryAcquire(1))
	// A caller that leaves does not take the bytes with it.
	_, err = waiting[0].Wait(ctx)
	require.ErrorIs(t, err, replica.ErrUnknownOutcome)
	require.False(t, r.memory.TryAcquire(1))

	release()
	_, err = waiting[1].Wait(t.Context())
	require.NoError(t, err)
	for range 10 {
		_, err := appendTo(p, batch())
		require.NoError(t, err)
	}
	_, err = p.Fence(t.Context(), 5)
	require.NoError(t, err)
	fenced, err := p.Append(t.Context(), [][]byte{batch()}, 4)
	require.NoError(t, err)
	_, err = fenced.Wait(t.Context())
	require.Error(t, err)
	require.NoError(t, r.Remove([]uuid.UUID{topic}, 1))
	_, err = appendTo(p, batch())
	require.ErrorIs(t, err, ErrUnknownPartition)
	require.True(t, r.memory.TryAcquire(o.MaxAppendBytes), "all of it is given back")
}
