package clean_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/clean"
)

const nowMs = 1_700_000_000_000

// record is one that a test writes or finds.
type record struct {
	Offset    int64
	Key       string // "" is none
	Value     string // "" is a tombstone
	Timestamp int64
}

// batchOf makes a batch at an offset.
func batchOf(t require.TestingT, o recordbatch.Options, base int64, records ...record) []byte {
	b := recordbatch.NewBuilder(o)
	for _, r := range records {
		key, value := []byte(r.Key), []byte(r.Value)
		if r.Key == "" {
			key = nil
		}
		if r.Value == "" && r.Timestamp%2 == 0 {
			value = nil // a tombstone of either kind
		}
		b.Append(r.Timestamp, key, value, []recordbatch.RecordHeader{{Key: "h", Value: []byte(r.Value)}})
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	recordbatch.Stamp(batch, base, 3)
	return batch
}

func recordsOf(t require.TestingT, batch []byte) (records []record) {
	require.NoError(t, recordbatch.CheckCRC(batch))
	for r, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
		require.NoError(t, err)
		for _, value := range r.Headers.All() {
			require.Equal(t, string(r.Value), string(value), "a header stays with its record")
		}
		records = append(records, record{r.Offset, string(r.Key), string(r.Value), r.Timestamp})
	}
	return records
}

func headerOf(t require.TestingT, batch []byte) recordbatch.Header {
	h, err := recordbatch.ParseHeader(batch)
	require.NoError(t, err)
	return h
}

// cleanAll cleans batches once and says how far it got.
func cleanAll(t require.TestingT, log [][]byte, rules clean.Rules, keyBytes int64) (out [][]byte, to, horizon int64) {
	c := clean.New(rules, clean.NewKeys(1<<20, keyBytes))
	producers := clean.NewProducers(100)
	for _, b := range log {
		producers.Note(headerOf(t, b))
	}
	for _, b := range log {
		if headerOf(t, b).NextOffset() <= rules.From {
			continue
		}
		all, err := c.Learn(b)
		require.NoError(t, err)
		if !all {
			break
		}
	}
	for _, b := range log {
		got, err := c.Clean(slices.Clone(b), producers.Last(headerOf(t, b)))
		require.NoError(t, err)
		horizon = max(horizon, got.HorizonMs)
		if got.Batch == nil {
			require.Equal(t, int(headerOf(t, b).Count), got.Dropped)
			continue
		}
		before, after := headerOf(t, b), headerOf(t, got.Batch)
		require.Equal(t, int(before.Count-after.Count), got.Dropped)
		require.Equal(t, before.BaseOffset, after.BaseOffset)
		require.Equal(t, before.NextOffset(), after.NextOffset())
		require.Equal(t, before.LeaderEpoch, after.LeaderEpoch)
		require.Equal(t, before.ProducerID, after.ProducerID)
		require.Equal(t, before.ProducerEpoch, after.ProducerEpoch)
		require.Equal(t, before.BaseSequence, after.BaseSequence)
		if after.Count > 0 {
			require.Equal(t, before.Attributes.Codec(), after.Attributes.Codec())
		}
		out = append(out, slices.Clone(got.Batch))
	}
	return out, c.Learned(), horizon
}

var rules = clean.Rules{NowMs: nowMs, TombstoneMs: 1000}

func TestNewestStays(t *testing.T) {
	for _, codec := range []recordbatch.Codec{recordbatch.None, recordbatch.Gzip, recordbatch.Snappy, recordbatch.LZ4, recordbatch.Zstd} {
		o := recordbatch.Options{Codec: codec}
		log := [][]byte{
			batchOf(t, o, 0, record{0, "a", "1", 10}, record{1, "b", "1", 12}, record{2, "c", "1", 11}),
			batchOf(t, o, 3, record{3, "a", "2", 13}),
			batchOf(t, o, 4, record{4, "a", "3", 14}, record{5, "d", "1", 15}),
		}
		out, to, horizon := cleanAll(t, log, rules, 1<<20)
		require.Equal(t, int64(6), to)
		require.Zero(t, horizon)
		require.Len(t, out, 2, "a batch without records goes")
		require.Equal(t, []record{{1, "b", "1", 12}, {2, "c", "1", 11}}, recordsOf(t, out[0]))
		require.Equal(t, int64(12), headerOf(t, out[0]).MaxTimestamp)
		require.Equal(t, log[2], out[1], "what loses nothing stays as it is")
	}
}

func TestTombstonesStayUntilTheirHorizon(t *testing.T) {
	log := [][]byte{
		batchOf(t, recordbatch.Options{Codec: recordbatch.Zstd}, 0, record{0, "a", "1", 10}, record{1, "b", "1", 12}),
		batchOf(t, recordbatch.Options{Codec: recordbatch.Zstd}, 2, record{2, "a", "", 20}, record{3, "b", "", 21}, record{4, "c", "x", 5}),
	}
	seen, _, horizon := cleanAll(t, log, rules, 1<<20)
	require.Len(t, seen, 1)
	require.Equal(t, int64(nowMs+1000), horizon)
	h := headerOf(t, seen[0])
	require.True(t, h.Attributes.HorizonSet())
	require.Equal(t, int64(nowMs+1000), h.BaseTimestamp)
	require.Equal(t, int64(21), h.MaxTimestamp)
	require.Equal(t, []record{{2, "a", "", 20}, {3, "b", "", 21}, {4, "c", "x", 5}}, recordsOf(t, seen[0]), "timestamps are what they were")

	within := clean.Rules{From: 5, NowMs: nowMs + 999, TombstoneMs: 1000}
	kept, _, horizon := cleanAll(t, seen, within, 1<<20)
	require.Equal(t, seen, kept, "the horizon does not move")
	require.Equal(t, int64(nowMs+1000), horizon)

	over := clean.Rules{From: 5, NowMs: nowMs + 1000, TombstoneMs: 1000}
	left, _, horizon := cleanAll(t, kept, over, 1<<20)
	require.Zero(t, horizon)
	require.Equal(t, []record{{4, "c", "x", 5}}, recordsOf(t, left[0]))
}

func TestEndlessTombstones(t *testing.T) {
	log := [][]byte{batchOf(t, recordbatch.Options{}, 0, record{0, "a", "", -1 << 62})}
	out, _, horizon := cleanAll(t, log, clean.Rules{NowMs: nowMs, TombstoneMs: 1<<63 - 1}, 1<<20)
	require.Equal(t, int64(1<<63-1), horizon)
	require.Equal(t, []record{{0, "a", "", -1 << 62}}, recordsOf(t, out[0]), "a delta that wraps wraps back")
}

func TestLastBatchOfAProducerStaysEmpty(t *testing.T) {
	by := func(id int64, sequence int32) recordbatch.Options {
		return recordbatch.Options{Codec: recordbatch.Gzip, Producer: &recordbatch.Producer{ID: id, Epoch: 2, BaseSequence: sequence}}
	}
	log := [][]byte{
		batchOf(t, by(7, 0), 0, record{0, "a", "1", 10}),
		batchOf(t, by(7, 1), 1, record{1, "a", "2", 10}, record{2, "a", "3", 10}),
		batchOf(t, recordbatch.Options{}, 3, record{3, "a", "4", 10}),
		batchOf(t, by(9, 0), 4, record{4, "b", "4", 10}),
	}
	out, _, _ := cleanAll(t, log, rules, 1<<20)
	require.Len(t, out, 3)
	h := headerOf(t, out[0])
	require.Equal(t, int32(0), h.Count)
	require.Equal(t, []any{int64(7), int16(2), int32(1), int64(1), int64(3)}, []any{h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.BaseOffset, h.NextOffset()})
	require.Empty(t, recordsOf(t, out[0]))
	again, _, _ := cleanAll(t, out, rules, 1<<20)
	require.Equal(t, out, again)
	// Once the producer has gone on, it goes.
	out = append(out, batchOf(t, by(7, 3), 5, record{5, "c", "4", 10}))
	again, _, _ = cleanAll(t, out, rules, 1<<20)
	require.Len(t, again, 3)
	require.Equal(t, out[1:], again)
}

func TestRecordsWithoutAKeyGo(t *testing.T) {
	log := [][]byte{batchOf(t, recordbatch.Options{}, 0, record{0, "", "1", 10}, record{1, "a", "1", 10}, record{2, "", "2", 10})}
	out, _, _ := cleanAll(t, log, rules, 1<<20)
	require.Equal(t, []record{{1, "a", "1", 10}}, recordsOf(t, out[0]))
}

func TestTransactionsAreLeftAlone(t *testing.T) {
	p := &recordbatch.Producer{ID: 7, BaseSequence: 0}
	log := [][]byte{
		batchOf(t, recordbatch.Options{}, 0, record{0, "a", "1", 10}),
		batchOf(t, recordbatch.Options{Producer: p, Transactional: true}, 1, record{1, "a", "2", 10}),
		batchOf(t, recordbatch.Options{Producer: p, Transactional: true, Control: true}, 2, record{2, "\x00\x00\x00\x00", "m", 10}),
		batchOf(t, recordbatch.Options{}, 3, record{3, "b", "3", 10}),
	}
	out, to, _ := cleanAll(t, log, rules, 1<<20)
	require.Equal(t, log, out, "an aborted record must not supersede another")
	require.Equal(t, int64(4), to)
}

// A log with more keys than there is room for is cleaned in several rounds.
func TestRoundsWithLittleRoom(t *testing.T) {
	var log [][]byte
	var want []record
	next := int64(0)
	for round := range 3 {
		for i := 0; i < 500; i += 10 {
			var rs []record
			for k := range 10 {
				rs = append(rs, record{next, fmt.Sprint("k", i+k), fmt.Sprint(round), 10})
				next++
			}
			if round == 2 {
				want = append(want, rs...)
			}
			log = append(log, batchOf(t, recordbatch.Options{}, rs[0].Offset, rs...))
		}
	}
	from, rounds := int64(0), 0
	for from < next {
		var to int64
		log, to, _ = cleanAll(t, log, clean.Rules{From: from, NowMs: nowMs}, 0)
		require.Greater(t, to, from)
		from = to
		rounds++
	}
	require.Greater(t, rounds, 5)
	var got []record
	for _, b := range log {
		got = append(got, recordsOf(t, b)...)
	}
	require.Equal(t, want, got)
}

// What was not learned stays as it is, and a tombstone has its whole time from
// when what it covers is gone.
func TestWhatIsNotLearnedStays(t *testing.T) {
	rs := []record{{0, "t", "", 10}}
	for i := range int64(200) {
		rs = append(rs, record{i + 1, fmt.Sprint(i % 100), "v", 10})
	}
	rs = append(rs, record{201, "u", "", 10}, record{202, "", "no key", 10})
	log := [][]byte{batchOf(t, recordbatch.Options{}, 0, rs...)}
	out, to, horizon := cleanAll(t, log, rules, 0)
	require.Less(t, to, int64(100))
	require.Equal(t, log, out)
	require.Zero(t, horizon)
	for to < 203 {
		out, to, horizon = cleanAll(t, out, clean.Rules{From: to, NowMs: nowMs, TombstoneMs: 1000}, 0)
	}
	require.Equal(t, int64(nowMs+1000), horizon)
	require.Len(t, recordsOf(t, out[0]), 102)
}

// state is the newest record of each key; one of a tombstone counts as none.
func state(t require.TestingT, log [][]byte) map[string]record {
	newest := map[string]record{}
	for _, b := range log {
		for _, r := range recordsOf(t, b) {
			newest[r.Key] = r
			if r.Value == "" {
				delete(newest, r.Key)
			}
		}
	}
	return newest
}

// Whatever is written, and however often it is cleaned in between with however
// little room, the newest record of each key is the same before and after, byte
// for byte of key, value and headers, with its offset and timestamp; no offset
// goes back; and in the end each key is there once.
func TestCleaningKeepsTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log [][]byte
		next, cleanTo, now := int64(0), int64(0), int64(nowMs)
		step := func() {
			before := state(t, log)
			delete(before, "")
			var to int64
			log, to, _ = cleanAll(t, log, clean.Rules{From: cleanTo, NowMs: now, TombstoneMs: 500}, rapid.SampledFrom([]int64{0, 1 << 20}).Draw(t, "room"))
			require.GreaterOrEqual(t, to, cleanTo)
			cleanTo = to
			after := state(t, log)
			delete(after, "")
			require.Equal(t, before, after)
			last := int64(0)
			for _, b := range log {
				require.GreaterOrEqual(t, headerOf(t, b).BaseOffset, last)
				last = headerOf(t, b).NextOffset()
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			now += rapid.Int64Range(0, 400).Draw(t, "time")
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				step()
				continue
			}
			o := recordbatch.Options{Codec: recordbatch.Codec(rapid.IntRange(0, 4).Draw(t, "codec"))}
			if rapid.Bool().Draw(t, "idempotent") {
				o.Producer = &recordbatch.Producer{ID: rapid.Int64Range(0, 3).Draw(t, "producer"), BaseSequence: int32(next)}
			}
			var rs []record
			for range rapid.IntRange(1, 60).Draw(t, "records") {
				key := ""
				if k := rapid.IntRange(0, 90).Draw(t, "key"); k > 0 {
					key = fmt.Sprint(k)
				}
				rs = append(rs, record{next, key, rapid.SampledFrom([]string{"", "v", "longer value", "w"}).Draw(t, "value"), now - rapid.Int64Range(-500, 500).Draw(t, "timestamp")})
				next++
			}
			log = append(log, batchOf(t, o, rs[0].Offset, rs...))
		}
		for cleanTo < next {
			step()
		}
		now += 10_000
		step()
		seen := map[string]bool{}
		for _, b := range log {
			for _, r := range recordsOf(t, b) {
				require.NotEmpty(t, r.Value, "tombstones are gone after their horizon")
				require.False(t, seen[r.Key])
				seen[r.Key] = true
			}
		}
	})
}

// FuzzClean cleans whatever check lets through, and more: it must not fail on it,
// nor take what stays for something else.
func FuzzClean(f *testing.F) {
	for codec := range 5 {
		f.Add(batchOf(f, recordbatch.Options{Codec: recordbatch.Codec(codec)}, 0,
			record{0, "a", "1", 10}, record{1, "a", "", 12}, record{2, "", "x", -5}), int64(0), int64(1000))
	}
	f.Fuzz(func(t *testing.T, bytesOf []byte, from, tombstoneMs int64) {
		batch, rest, err := recordbatch.Next(bytesOf)
		if err != nil || batch == nil || len(rest) > 0 {
			return
		}
		batch = bytes.Clone(batch)
		recordbatch.SealCRC(batch)
		h := headerOf(t, batch)
		if h.BaseOffset < 0 || h.BaseOffset > 1<<40 {
			return
		}
		var before []recordbatch.Record
		readable := true
		for r, err := range recordbatch.Records(batch, recordbatch.Limits{MaxInflate: 1 << 20}) {
			readable = readable && err == nil
			before = append(before, r)
		}
		c := clean.New(clean.Rules{From: from, NowMs: nowMs, TombstoneMs: tombstoneMs, MaxInflate: 1 << 20}, clean.NewKeys(1000, 1<<16))
		if _, err := c.Learn(batch); err != nil {
			require.False(t, readable)
			return
		}
		got, err := c.Clean(batch, false)
		if err != nil {
			require.False(t, readable)
			return
		}
		if got.Batch == nil || !readable {
			return
		}
		at := 0
		for r, err := range recordbatch.Records(got.Batch, recordbatch.Limits{MaxInflate: 1 << 21}) {
			require.NoError(t, err)
			for at < len(before) && (before[at].OffsetDelta != r.OffsetDelta || !bytes.Equal(before[at].Key, r.Key) || !bytes.Equal(before[at].Value, r.Value)) {
				at++
			}
			require.Less(t, at, len(before), "a record that was not there")
			require.Equal(t, before[at].Timestamp, r.Timestamp)
			require.Equal(t, before[at].Headers.Size(), r.Headers.Size())
			at++
		}
	})
}
