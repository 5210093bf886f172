package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// batchOf is a stamped batch with so many records.
func batchOf(t testing.TB, base int64, epoch int32, records int, value []byte) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(recordbatch.Options{})
	for i := range records {
		b.Append(base+int64(i), nil, value, nil)
	}
	bytes, err := b.Finish()
	require.NoError(t, err)
	recordbatch.Stamp(bytes, base, epoch)
	return bytes
}

// aSegment is n batches of two records in epoch 1, and where they begin.
func aSegment(t testing.TB, n int) (b []byte, starts []At) {
	for i := range n {
		starts = append(starts, At{Position: int64(len(b)), Offset: int64(2 * i), Index: uint64(10 + i)})
		b = append(b, batchOf(t, int64(2*i), 1, 2, make([]byte, 20+i))...)
	}
	return b, starts
}

func always(at At) (uint64, int32, bool) { return at.Index, 1, true }

func scan(t testing.TB, b []byte) (ScanResult, []At) {
	var seen []At
	res, err := Scan(bytes.NewReader(b), int64(len(b)), At{Index: 10}, always, func(x Batch) { seen = append(seen, x.At) })
	require.NoError(t, err)
	return res, seen
}

func TestScanFindsTheEnd(t *testing.T) {
	b, starts := aSegment(t, 5)
	res, seen := scan(t, b)
	require.Equal(t, ScanResult{End: At{int64(len(b)), 10, 15}}, res)
	require.Equal(t, starts, seen)

	res, _ = scan(t, append(b, make([]byte, 300_000)...))
	require.Equal(t, ScanResult{End: At{int64(len(b)), 10, 15}}, res, "zeros are no tail")

	for cut := range b {
		res, seen := scan(t, b[:cut])
		require.Equal(t, int64(2*len(seen)), res.End.Offset)
		require.LessOrEqual(t, res.End.Position, int64(cut))
		require.False(t, res.Chain)
		if res.Bad {
			require.Less(t, res.End.Position, int64(cut))
		}
	}
}

func TestScanTellsDamageFromATornTail(t *testing.T) {
	whole, starts := aSegment(t, 5)
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 0x40
		res, _ := scan(t, b)
		require.True(t, res.Bad, at)
		if into := int64(at) - starts[4].Position; into >= 0 && into < checksumFrom {
			continue // a whole batch in the wrong place is damage too
		}
		require.Equal(t, int64(at) < starts[4].Position, res.Chain, "a flipped bit at %d; good batches follow", at)
	}
	// A lost page: zeros, and good batches after them.
	b := bytes.Clone(whole)
	clear(b[starts[1].Position : starts[2].Position+7])
	res, _ := scan(t, b)
	require.Equal(t, starts[1], res.End)
	require.True(t, res.Bad && res.Chain)
}

// A batch that a producer sent as a value is none of ours.
func TestScanDoesNotLookIntoABadBatch(t *testing.T) {
	inner := batchOf(t, 5, 1, 1, nil)
	b := batchOf(t, 0, 1, 1, append(inner, make([]byte, 100)...))
	b[len(b)-1] ^= 1
	res, _ := scan(t, b)
	require.Equal(t, ScanResult{Bad: true, End: At{Index: 10}}, res)
}

func TestScanWantsWhatIsExpected(t *testing.T) {
	b, starts := aSegment(t, 3)
	for name, edit := range map[string]func([]byte){
		"another offset": func(b []byte) { recordbatch.Stamp(b, 3, 1) },
		"another epoch":  func(b []byte) { recordbatch.Stamp(b, 2, 2) },
		"another magic":  func(b []byte) { b[16] = 1 },
		"a long length":  func(b []byte) { b[8] = 1 },
		"a short length": func(b []byte) { b[11]-- },
		"no length":      func(b []byte) { clear(b[8:12]) },
	} {
		c := bytes.Clone(b)
		edit(c[starts[1].Position:])
		res, _ := scan(t, c)
		require.Equal(t, starts[1], res.End, name)
		require.True(t, res.Bad, name)
	}
}

func TestIndexFindsEveryEntry(t *testing.T) {
	of := IndexOf{Base: 100, FirstIndex: 7}
	var entries []IndexEntry
	for i := range int64(300) {
		entries = append(entries, IndexEntry{
			At: At{Position: 4000 * (i + 1), Offset: 100 + 3*i + 1, Index: uint64(8 + 2*i)}, MaxTimestamp: i / 3, MaxTimestampOffset: 100 + i,
		})
	}
	file := of.AppendIndex(nil, true, entries)
	file = append(file, 1, 2, 3) // a torn entry
	x := IndexReader{Of: of, R: bytes.NewReader(file), N: IndexLen(int64(len(file)))}
	require.NoError(t, x.CheckHead())
	require.Equal(t, len(entries), x.N)
	for offset := int64(99); offset < 1100; offset++ {
		e, i, err := x.Last(func(e IndexEntry) bool { return e.Offset <= offset })
		require.NoError(t, err)
		if offset < 101 {
			require.Equal(t, -1, i)
			continue
		}
		require.Equal(t, min(int((offset-101)/3), 299), i)
		require.Equal(t, entries[i], e)
	}
	for at := range file[:indexHead+10*entrySize] {
		c := bytes.Clone(file)
		c[at] ^= 2
		x.R = bytes.NewReader(c)
		err := x.CheckHead()
		for i := range 10 {
			if _, bad := x.Entry(i); bad != nil {
				err = bad
			}
		}
		if at >= indexHead && (at-indexHead)%entrySize >= 28 {
			continue // padding
		}
		require.ErrorIs(t, err, ErrBadIndex, at)
	}
	x = IndexReader{Of: IndexOf{Base: 101, FirstIndex: 7}, R: bytes.NewReader(file), N: 300}
	require.ErrorIs(t, x.CheckHead(), ErrBadIndex, "that of another segment")
}

func TestIndexBuilderKeepsItsDistance(t *testing.T) {
	b, starts := aSegment(t, 20)
	builder := NewIndexBuilder(IndexOf{FirstIndex: 10}, 300, 0, -1, -1)
	last := int64(0)
	_, err := Walk(bytes.NewReader(b), int64(len(b)), starts[0], func(x Batch) bool {
		e, due := builder.Add(x)
		require.Equal(t, x.Position-last >= 300, due)
		if due {
			require.Equal(t, x.At, e.At)
			require.Equal(t, x.Offset-1, e.MaxTimestamp, "of the batches before")
			require.Equal(t, x.Offset-2, e.MaxTimestampOffset)
			last = x.Position
		}
		return true
	})
	require.NoError(t, err)
	require.Positive(t, last)
	require.False(t, (IndexOf{}).Fits(At{Position: 1 << 31}))
	require.False(t, (IndexOf{Base: 5}).Fits(At{Offset: 5 + 1<<31}))
}

func TestNames(t *testing.T) {
	require.Equal(t, "00000000000000001234.log", LogName(1234))
	for name, want := range map[string]bool{
		LogName(0): true, IndexName(1 << 62): true, "1.log": false, "00000000000000001234.txt": false,
		"99999999999999999999.log": false, "-0000000000000000001.log": false, "0000000000000000123x.log": false, "journal": false,
		"00000000000000001234.index.new": false,
	} {
		_, _, ok := ParseName(name)
		require.Equal(t, want, ok, name)
	}
	base, suffix, _ := ParseName(IndexName(77))
	require.Equal(t, int64(77), base)
	require.Equal(t, IndexSuffix, suffix)
}

// FuzzScan feeds whatever bytes as a segment: a scan takes no more than whole
// good batches, and what it took can be walked.
func FuzzScan(f *testing.F) {
	b, _ := aSegment(f, 3)
	rng := rand.New(rand.NewPCG(1, 1))
	f.Add(b)
	f.Add(append(bytes.Clone(b), make([]byte, 100)...))
	for range 10 {
		c := bytes.Clone(b)
		c[rng.IntN(len(c))] ^= 1 << rng.IntN(8)
		f.Add(c[:rng.IntN(len(c))])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		res, err := Scan(bytes.NewReader(b), int64(len(b)), At{}, func(at At) (uint64, int32, bool) { return at.Index, 1, true }, func(Batch) { n++ })
		require.NoError(t, err)
		require.LessOrEqual(t, res.End.Position, int64(len(b)))
		walked := 0
		end, err := Walk(bytes.NewReader(b), res.End.Position, At{}, func(x Batch) bool {
			ok, err := Checksum(bytes.NewReader(b), x)
			require.NoError(t, err)
			require.True(t, ok)
			walked++
			return true
		})
		require.NoError(t, err)
		require.Equal(t, res.End, end)
		require.Equal(t, n, walked)
		_, _ = Walk(bytes.NewReader(b), int64(len(b)), At{}, func(Batch) bool { return true })
	})
}

// FuzzIndex feeds whatever bytes as an index file.
func FuzzIndex(f *testing.F) {
	of := IndexOf{Base: 5, FirstIndex: 1}
	good := of.AppendIndex(nil, true, []IndexEntry{{At: At{5000, 6, 2}, MaxTimestamp: 1, MaxTimestampOffset: 5}, {At: At{9000, 9, 3}, MaxTimestamp: -1, MaxTimestampOffset: -1}})
	f.Add(good, int64(7))
	f.Add(good[:50], int64(7))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, offset int64) {
		x := IndexReader{Of: of, R: bytes.NewReader(b), N: IndexLen(int64(len(b)))}
		if x.CheckHead() != nil {
			return
		}
		e, i, err := x.Last(func(e IndexEntry) bool { return e.Offset <= offset })
		if err != nil {
			require.ErrorIs(t, err, ErrBadIndex)
			return
		}
		if i >= 0 {
			require.LessOrEqual(t, e.Offset, offset)
			require.GreaterOrEqual(t, e.Position, int64(0))
		}
	})
}
