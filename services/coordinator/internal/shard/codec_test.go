package shard

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// stamped is a batch as a leader stamps it.
func stamped(tb testing.TB, base int64, records ...Record) []byte {
	tb.Helper()
	batch, err := encode(1, records)
	require.NoError(tb, err)
	h, err := recordbatch.ParseHeader(batch)
	require.NoError(tb, err)
	h.BaseOffset = base
	recordbatch.PutHeader(batch, h)
	return batch
}

func TestRecordsComeBackFromWhereOneAsked(t *testing.T) {
	removed := set("b", 0)
	removed.Value = nil
	empty := set("c", 0)
	empty.Value = &persistv1.ShardValue{}
	log := append(stamped(t, 5, set("a", 1), set("a", 2)), stamped(t, 9, removed, empty)...)
	records, next, err := decode(log, 6)
	require.NoError(t, err)
	require.EqualValues(t, 11, next)
	require.Empty(t, cmp.Diff([]Record{set("a", 2), removed, empty}, records, protocmp.Transform()))
	require.Nil(t, records[1].Value)
	require.NotNil(t, records[2].Value)
}

func TestWhatCannotBeReadIsNotSkipped(t *testing.T) {
	b := recordbatch.NewBuilder(recordbatch.Options{})
	b.Append(1, nil, []byte("a key of a later version"), nil)
	unknown, err := b.Finish()
	require.NoError(t, err)
	whole := stamped(t, 0, set("a", 1))
	for name, log := range map[string][]byte{
		"unknown kind": unknown,
		"cut":          whole[:len(whole)-1],
		"header cut":   whole[:20],
		"garbage":      []byte("garbage"),
	} {
		_, _, err := decode(log, 0)
		require.ErrorIs(t, err, ErrBadLog, name)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(stamped(f, 0, set("a", 1), set("b", 2)), int64(0))
	f.Add(append(stamped(f, 3, set("a", 1)), stamped(f, 4, set("a", 2))...), int64(4))
	f.Add(stamped(f, 1<<62, set("a", 1)), int64(-1))
	f.Fuzz(func(t *testing.T, log []byte, from int64) {
		records, next, err := decode(log, from)
		if err != nil {
			require.ErrorIs(t, err, ErrBadLog)
			return
		}
		require.GreaterOrEqual(t, next, from)
		for _, r := range records {
			require.NotNil(t, r.Key.Kind)
		}
	})
}
