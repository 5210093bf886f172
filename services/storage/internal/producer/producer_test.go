package producer_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
)

func TestTheOldestAndTheIdleAreForgotten(t *testing.T) {
	table := producer.NewTable(producer.Bounds{Max: 3, Idle: time.Second})
	for number := range int64(3) {
		table.Apply(wideBatch(number, 0, 1, number), number)
	}
	table.Apply(wideBatch(0, 1, 1, 3), 3)
	table.Apply(wideBatch(9, 0, 1, 4), 4) // one too many
	ids := func(now int64) (ids []int64) {
		for _, k := range table.List(now) {
			ids = append(ids, k.Producer&^recordbatch.WideProducer)
		}
		return ids
	}
	require.Equal(t, []int64{0, 2, 9}, ids(4))
	require.Equal(t, []int64{0, 9}, ids(1002))
	require.Equal(t, []int64{9}, ids(1003))
	require.Empty(t, ids(1004))
	require.Len(t, table.Encode(1003), 1)
	require.Empty(t, table.Encode(1004))
	require.Zero(t, table.Len())
}

func TestTheLastSequenceOfAll(t *testing.T) {
	ahead := producer.Ahead{Table: producer.NewTable(producer.Bounds{})}
	id := recordbatch.WideProducer | 1
	ahead.Table.Apply(wideBatch(1, math.MaxInt64-1, 2, 10), 0)
	got, err := ahead.Prepare(id, []int64{math.MaxInt64 - 1, math.MaxInt64}, 0)
	require.NoError(t, err)
	require.Equal(t, []int64{10, 11}, got.Offsets)
	_, err = ahead.Prepare(id, []int64{0}, 0)
	require.ErrorContains(t, err, "sequence too low")
}

func TestManyRunsStayWithinTheWindow(t *testing.T) {
	table := producer.NewTable(producer.Bounds{})
	for i := range int64(1000) {
		table.Apply(wideBatch(1, i, 1, 2*i), 0) // no two of them touch
	}
	encoded := table.Encode(0)
	require.Len(t, encoded, 1)
	require.Len(t, encoded[0].GetRuns(), producer.Window)
	require.EqualValues(t, 1000-producer.Window, encoded[0].GetRuns()[0].GetFirstSequence())

	table = producer.NewTable(producer.Bounds{})
	for i := range int64(1000) {
		table.Apply(wideBatch(1, i, 1, i), 0) // all of them touch
	}
	require.Len(t, table.Encode(0)[0].GetRuns(), 1)
}

func TestHeadersThatNoProducerWrites(t *testing.T) {
	for name, h := range map[string]recordbatch.Header{
		"64 bits":           {ProducerID: 1<<62 | 1<<61, LastOffsetDelta: 0},
		"beyond the last":   {ProducerID: 1<<62 | (1<<17-1)<<44, ProducerEpoch: math.MaxInt16, BaseSequence: math.MaxInt32, LastOffsetDelta: 1},
		"negative epoch":    {ProducerID: 1, ProducerEpoch: -1},
		"negative sequence": {ProducerID: 1, BaseSequence: -1},
	} {
		_, ok, err := producer.Of(h)
		require.False(t, ok, name)
		require.ErrorIs(t, err, producer.ErrBadBatch, name)
	}
	for name, h := range map[string]recordbatch.Header{
		"none":   {ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1},
		"marker": {ProducerID: 1, BaseSequence: -1, Attributes: recordbatch.Control},
	} {
		_, ok, err := producer.Of(h)
		require.False(t, ok, name)
		require.NoError(t, err, name)
	}
}

func TestStateThatIsNone(t *testing.T) {
	wide := recordbatch.WideProducer | 1
	r := func(first, last, offset int64) *persistv1.ProducerState_Run {
		return &persistv1.ProducerState_Run{FirstSequence: first, LastSequence: last, FirstOffset: offset}
	}
	for name, states := range map[string][]*persistv1.ProducerState{
		"no record":  {{ProducerId: wide}},
		"backwards":  {{ProducerId: wide, Runs: []*persistv1.ProducerState_Run{r(2, 1, 0)}}},
		"with a gap": {{ProducerId: wide, Runs: []*persistv1.ProducerState_Run{r(0, 1, 0), r(3, 3, 2)}}},
		"too wide":   {{ProducerId: 1, Runs: []*persistv1.ProducerState_Run{r(0, 1<<31, 0)}}},
		"twice": {
			{ProducerId: wide, Runs: []*persistv1.ProducerState_Run{r(0, 1, 0)}},
			{ProducerId: wide, Runs: []*persistv1.ProducerState_Run{r(0, 1, 0)}},
		},
	} {
		_, err := producer.Decode(producer.Bounds{}, states)
		require.Error(t, err, name)
	}
}

func FuzzGuard(f *testing.F) {
	f.Add([]byte{})
	f.Add(producer.Guard{}.Encode())
	f.Add(producer.Guard{Topic: [16]byte{1}, Partition: 3, Term: 7, Producer: 1<<62 | 5, Expected: producer.Expected{Known: true, Last: 42}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		guard, err := producer.DecodeGuard(b)
		if err != nil {
			require.ErrorIs(t, err, producer.ErrBadGuard)
			return
		}
		require.Equal(t, b, guard.Encode())
	})
}
