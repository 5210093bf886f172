package raftlog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// Who has opened a sealed segment reads it to its end, also when it is dropped or
// the log sleeps meanwhile; who comes later is told.
func TestSealedOutlivesItsSegment(t *testing.T) {
	w := newWorld(t, 1)
	w.limits = raftlog.Limits{SegmentBytes: 4000, SegmentMs: 1 << 40, IndexInterval: 200}
	require.NoError(t, w.log.Write(inTerm(2, 2)))
	var batches [][]byte
	for i := range 100 {
		b := batch(t, int64(i), 2, make([]byte, 100+i), int64(i))
		batches = append(batches, b)
		require.NoError(t, w.log.Write(raftlog.Write{Entries: one(entryOf(uint64(3+i), 2, b)), Payloads: [][]byte{b}, Commit: uint64(3 + i)}))
	}
	segments := w.log.Stats().Segments
	require.Greater(t, len(segments), 3)
	first := segments[1]
	sealed, err := w.log.OpenSealed(first.Base, first.Generation)
	require.NoError(t, err)
	_, err = w.log.OpenSealed(segments[len(segments)-1].Base, 0)
	require.ErrorIs(t, err, raftlog.ErrReplaced, "the active one is not sealed")
	_, err = w.log.OpenSealed(first.Base, first.Generation+1)
	require.ErrorIs(t, err, raftlog.ErrReplaced)

	size := int64(0)
	for offset := first.Next - 1; offset >= first.Base; offset-- {
		size += int64(len(batches[offset]))
		left, err := w.log.BytesFrom(first.Base, offset)
		require.NoError(t, err)
		require.Equal(t, size, left)
	}
	require.Equal(t, first.Size, size)

	point := raftlog.Point{Applied: 102, ConfState: confState(1, 2)}
	require.NoError(t, w.log.WritePoint(point))
	dropped, _, err := w.log.DropBefore(first.Next)
	require.NoError(t, err)
	require.Equal(t, 2, dropped)
	require.NoError(t, w.log.Sleep(point))
	_, err = w.log.OpenSealed(first.Base, first.Generation)
	require.ErrorIs(t, err, raftlog.ErrReplaced)

	position, offset := int64(0), first.Base
	require.NoError(t, sealed.Scan(func(at int64, b []byte) error {
		require.Equal(t, position, at)
		require.Equal(t, batches[offset], b)
		again := make([]byte, len(b))
		_, err := sealed.ReadAt(again, at)
		require.NoError(t, err)
		require.Equal(t, b, again)
		position, offset = position+int64(len(b)), offset+1
		return nil
	}))
	require.Equal(t, first.Next, offset)
	require.NoError(t, sealed.Close())
}
