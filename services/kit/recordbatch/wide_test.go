package recordbatch_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// The layout is on disk; these are its corners.
func TestWideLayout(t *testing.T) {
	require.Equal(t, recordbatch.Producer{ID: 1<<62 | 7, Epoch: 0, BaseSequence: 42}, recordbatch.PackWide(7, 42))
	require.Equal(t, recordbatch.Producer{ID: 1<<62 | 7, Epoch: 1, BaseSequence: 0}, recordbatch.PackWide(7, 1<<31))
	require.Equal(t, recordbatch.Producer{ID: 1<<62 | 1<<44 | 7, Epoch: 0, BaseSequence: 0}, recordbatch.PackWide(7, 1<<46))
	require.Equal(t,
		recordbatch.Producer{ID: 1<<62 | (1<<17-1)<<44 | recordbatch.MaxWideNumber, Epoch: math.MaxInt16, BaseSequence: math.MaxInt32},
		recordbatch.PackWide(recordbatch.MaxWideNumber, math.MaxInt64))
}

func TestWideComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Int64Range(0, recordbatch.MaxWideNumber).Draw(t, "number")
		sequence := rapid.Int64Range(0, math.MaxInt64).Draw(t, "sequence")
		p := recordbatch.PackWide(number, sequence)
		gotNumber, gotSequence, ok := recordbatch.Header{ProducerID: p.ID, ProducerEpoch: p.Epoch, BaseSequence: p.BaseSequence}.Wide()
		if !ok || gotNumber != number || gotSequence != sequence {
			t.Fatalf("%d, %d, %v", gotNumber, gotSequence, ok)
		}
	})
}

func TestWideIsToldFromOthers(t *testing.T) {
	for _, h := range []recordbatch.Header{
		{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1},
		{ProducerID: 7},
		{ProducerID: 1<<62 - 1},
		{ProducerID: 1 << 62, ProducerEpoch: -1},
		{ProducerID: 1 << 62, BaseSequence: -1},
		{ProducerID: 1<<62 | 1<<61}, // a sequence of 64 bits
	} {
		_, _, ok := h.Wide()
		require.False(t, ok, "%+v", h)
	}
}
