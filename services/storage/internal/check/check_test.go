package check_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/check"
)

var now = time.UnixMilli(1_700_000_000_000)

const hour = 3_600_000

type record struct {
	timestamp  int64 // after now
	key, value string
}

func build(tb testing.TB, options recordbatch.Options, records ...record) []byte {
	tb.Helper()
	b := recordbatch.NewBuilder(options)
	for _, r := range records {
		var key []byte
		if r.key != "" {
			key = []byte(r.key)
		}
		b.Append(now.UnixMilli()+r.timestamp, key, []byte(r.value), nil)
	}
	batch, err := b.Finish()
	require.NoError(tb, err)
	return batch
}

func three(tb testing.TB) []byte {
	tb.Helper()
	return build(tb, recordbatch.Options{}, record{0, "a", "1"}, record{5, "b", "2"}, record{5, "c", "3"})
}

// edited is a batch with another header and a CRC to match.
func edited(tb testing.TB, batch []byte, edit func(h *recordbatch.Header)) []byte {
	tb.Helper()
	h, err := recordbatch.ParseHeader(batch)
	require.NoError(tb, err)
	edit(&h)
	batch = bytes.Clone(batch)
	recordbatch.PutHeader(batch, h)
	recordbatch.SealCRC(batch)
	return batch
}

// rawRecords is a batch whose records are these bytes.
func rawRecords(tb testing.TB, count int32, records ...[]byte) []byte {
	tb.Helper()
	batch := append(three(tb)[:recordbatch.HeaderSize:recordbatch.HeaderSize], bytes.Join(records, nil)...)
	h := recordbatch.Header{Magic: 2, LeaderEpoch: -1, LastOffsetDelta: count - 1, Count: count,
		BaseTimestamp: now.UnixMilli(), MaxTimestamp: now.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	recordbatch.Seal(batch, h)
	return batch
}

func TestInOrderIsLeftAlone(t *testing.T) {
	for _, codec := range []recordbatch.Codec{recordbatch.None, recordbatch.Gzip, recordbatch.Snappy, recordbatch.LZ4, recordbatch.Zstd} {
		a := build(t, recordbatch.Options{Codec: codec}, record{0, "a", "1"}, record{5, "b", "2"}, record{5, "c", "3"}, record{-3, "d", "4"})
		b := build(t, recordbatch.Options{Producer: &recordbatch.Producer{ID: 7, Epoch: 1, BaseSequence: 3}, Transactional: true}, record{1, "", "x"})
		both := append(bytes.Clone(a), b...)
		checked, err := check.Check(nil, both, check.DefaultRules(), now)
		require.NoError(t, err)
		require.Len(t, checked, 2)
		first, second := checked[0], checked[1]
		require.Equal(t, a, first.Bytes)
		require.Equal(t, b, second.Bytes)
		require.Same(t, &both[0], &first.Bytes[0], "not copied")
		require.EqualValues(t, 4, first.Records)
		require.Equal(t, now.UnixMilli()+5, first.MaxTimestamp)
		require.EqualValues(t, 1, first.MaxTimestampOffsetDelta, "the first of those with the largest")
		require.EqualValues(t, 7, second.Header.ProducerID)
		require.EqualValues(t, 0, second.MaxTimestampOffsetDelta)
	}
}

func TestRefused(t *testing.T) {
	const (
		invalid   = storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD
		corrupt   = storagev1.ErrorCode_ERROR_CODE_CORRUPT_MESSAGE
		tooLarge  = storagev1.ErrorCode_ERROR_CODE_RECORD_TOO_LARGE
		timestamp = storagev1.ErrorCode_ERROR_CODE_INVALID_TIMESTAMP
	)
	head := func(edit func(h *recordbatch.Header)) func() []byte {
		return func() []byte { return edited(t, three(t), edit) }
	}
	sane := func(*check.Rules) {}
	good := []byte{12, 0, 0, 0, 1, 1, 0}
	for name, c := range map[string]struct {
		bytes  func() []byte
		rules  func(r *check.Rules)
		code   storagev1.ErrorCode
		record int
		reason string
	}{
		"no bytes": {func() []byte { return nil }, sane, invalid, -1, "expected a record batch, got no bytes"},
		"header cut": {func() []byte { return three(t)[:60] }, sane, invalid, -1,
			"expected a header of 61 bytes, got 60"},
		"records cut": {func() []byte { b := three(t); return b[:len(b)-1] }, sane, invalid, -1, "truncated batch"},
		"second batch cut": {func() []byte { return append(three(t), three(t)[:70]...) }, sane, invalid, -1,
			"truncated batch"},
		"length negative": {func() []byte { b := three(t); b[8] = 0x80; return b }, sane, invalid, -1, "expected at least 49"},
		"magic 0":         {func() []byte { b := three(t); b[16] = 0; return b }, sane, invalid, -1, "message format 0 or 1, expected 2"},
		"magic 1":         {func() []byte { b := three(t); b[16] = 1; return b }, sane, invalid, -1, "message format 0 or 1, expected 2"},
		"magic unknown":   {func() []byte { b := three(t); b[16] = 9; return b }, sane, corrupt, -1, "unknown message format, expected 2: got 9"},
		"CRC":             {func() []byte { b := three(t); b[len(b)-1] ^= 1; return b }, sane, corrupt, -1, "CRC does not match"},
		"several batches": {func() []byte { return append(three(t), three(t)...) }, func(r *check.Rules) { r.SingleBatch = true }, invalid, -1,
			"expected one batch, got several"},
		"base offset": {head(func(h *recordbatch.Header) { h.BaseOffset = 3 }), sane, invalid, -1, "expected base offset 0, got 3"},
		"count 0":     {head(func(h *recordbatch.Header) { h.Count = 0 }), sane, invalid, -1, "expected at least one record, got none"},
		"count negative": {func() []byte {
			b := three(t)
			binary.BigEndian.PutUint32(b[57:], 0xffffffff)
			recordbatch.SealCRC(b)
			return b
		}, sane, invalid, -1, "negative record count -1"},
		"last delta too large": {head(func(h *recordbatch.Header) { h.LastOffsetDelta = 3 }), sane, invalid, -1, "expected last offset delta 2 for 3 records, got 3"},
		"last delta too small": {head(func(h *recordbatch.Header) { h.LastOffsetDelta = 1 }), sane, invalid, -1, "expected last offset delta 2 for 3 records, got 1"},
		"count too large":      {head(func(h *recordbatch.Header) { h.Count, h.LastOffsetDelta = 4, 3 }), sane, invalid, -1, "4 records in 27 bytes"},
		"a record missing": {func() []byte {
			b := build(t, recordbatch.Options{}, record{0, "k", "a long value"})
			return edited(t, b, func(h *recordbatch.Header) { h.Count, h.LastOffsetDelta = 2, 1 })
		}, sane, invalid, 1, "length passes the batch's end"},
		"count huge":      {head(func(h *recordbatch.Header) { h.Count, h.LastOffsetDelta = math.MaxInt32, math.MaxInt32-1 }), sane, invalid, -1, "2147483647 records in"},
		"count too small": {head(func(h *recordbatch.Header) { h.Count, h.LastOffsetDelta = 2, 1 }), sane, invalid, 2, "bytes after the last record"},
		"deltas do not begin at 0": {func() []byte { return rawRecords(t, 1, []byte{12, 0, 0, 2, 1, 1, 0}) }, sane, invalid, 0,
			"expected offset delta 0, got 1"},
		"deltas have a gap": {func() []byte { return rawRecords(t, 2, good, []byte{12, 0, 0, 4, 1, 1, 0}) }, sane, invalid, 1,
			"expected offset delta 1, got 2"},
		"deltas repeat": {func() []byte { return rawRecords(t, 2, good, good) }, sane, invalid, 1, "expected offset delta 1, got 0"},
		"malformed record of the second batch": {func() []byte {
			return append(three(t), rawRecords(t, 2, good, []byte{12, 0, 0, 2, 9, 1, 0})...)
		},
			sane, invalid, 4, "key is no number or passes the record's end"},
		"control from a client":    {head(func(h *recordbatch.Header) { h.Attributes |= recordbatch.Control }), sane, invalid, -1, "control batches (attribute bit 5) are not for clients"},
		"horizon":                  {head(func(h *recordbatch.Header) { h.Attributes |= recordbatch.HorizonSet }), sane, invalid, -1, "attribute bit 6"},
		"log-append time set":      {head(func(h *recordbatch.Header) { h.Attributes |= recordbatch.LogAppendTime }), sane, timestamp, -1, "expected create time"},
		"codec 5":                  {head(func(h *recordbatch.Header) { h.Attributes |= 5 }), sane, invalid, -1, "expected a compression codec of 0 to 4, got 5"},
		"not of its codec":         {head(func(h *recordbatch.Header) { h.Attributes = h.Attributes.WithCodec(recordbatch.Zstd) }), sane, invalid, -1, "malformed batch: zstd"},
		"producer id below -1":     {head(func(h *recordbatch.Header) { h.ProducerID = -2 }), sane, invalid, -1, "expected a producer id of at least -1, got -2"},
		"transaction of nobody":    {head(func(h *recordbatch.Header) { h.Attributes |= recordbatch.Transactional }), sane, invalid, -1, "expected a producer id"},
		"producer without epoch":   {head(func(h *recordbatch.Header) { h.ProducerID, h.BaseSequence = 4, 0 }), sane, invalid, -1, "expected a producer epoch with producer id 4, got -1"},
		"producer without numbers": {head(func(h *recordbatch.Header) { h.ProducerID, h.ProducerEpoch = 4, 0 }), sane, invalid, -1, "expected a sequence with producer id 4, got -1"},
		"no key on a compacted topic": {func() []byte {
			return build(t, recordbatch.Options{}, record{0, "k", "v"}, record{0, "", "v"})
		},
			func(r *check.Rules) { r.Compacted = true }, invalid, 1, "expected a key on a compacted topic, got none"},
		"no key in the second batch": {func() []byte {
			return append(three(t), build(t, recordbatch.Options{}, record{0, "", "v"})...)
		},
			func(r *check.Rules) { r.Compacted = true }, invalid, 3, "expected a key on a compacted topic, got none"},
		"batch too large": {func() []byte { return three(t) }, func(r *check.Rules) { r.MaxBatchBytes = 80 }, tooLarge, -1,
			"expected a batch of at most 80 bytes, got 88"},
		"batch too large once uncompressed": {func() []byte {
			return build(t, recordbatch.Options{Codec: recordbatch.Zstd}, record{0, "k", string(bytes.Repeat([]byte("v"), 5000))})
		}, func(r *check.Rules) { r.MaxBatchBytes, r.Codec = 1000, new(recordbatch.None) }, tooLarge, -1, "expected a batch of at most 1000 bytes"},
		"record too large": {func() []byte {
			return build(t, recordbatch.Options{}, record{0, "key", "value"}, record{0, "key", "value!"})
		},
			func(r *check.Rules) { r.MaxRecordBytes = 8 }, tooLarge, 1, "expected a record of at most 8 bytes, got 9"},
		"inflates too far": {func() []byte {
			return build(t, recordbatch.Options{Codec: recordbatch.LZ4}, record{0, "k", string(make([]byte, 100_000))})
		}, func(r *check.Rules) { r.MaxInflate = 50_000 }, tooLarge, -1, "more than 50000 bytes"},
		"too far ahead": {func() []byte {
			return build(t, recordbatch.Options{}, record{hour, "k", "v"}, record{hour + 1, "k", "v"})
		}, sane, timestamp, 1, "got 1700003600001"},
		"too far behind": {func() []byte {
			return build(t, recordbatch.Options{}, record{-1000, "k", "v"}, record{-1001, "k", "v"})
		},
			func(r *check.Rules) { r.TimestampBeforeMaxMs = 1000 }, timestamp, 1, "got 1699999998999"},
		"timestamp overflows": {func() []byte {
			return edited(t, three(t), func(h *recordbatch.Header) { h.BaseTimestamp = math.MaxInt64 })
		}, func(r *check.Rules) { r.TimestampAfterMaxMs = math.MaxInt64 }, timestamp, 1, "overflow"},
	} {
		t.Run(name, func(t *testing.T) {
			batches := c.bytes()
			before := bytes.Clone(batches)
			rules := check.DefaultRules()
			c.rules(&rules)
			checked, err := check.Check(nil, batches, rules, now)
			require.Empty(t, checked)
			var refused *check.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.code, refused.Code, "%v", err)
			require.Equal(t, c.record, refused.Record, "%v", err)
			require.Contains(t, refused.Reason, c.reason)
			require.Equal(t, before, batches, "the caller's bytes are left alone")
		})
	}
}

func TestAtTheLimits(t *testing.T) {
	rules := check.DefaultRules()
	rules.TimestampBeforeMaxMs = 1000
	batch := build(t, recordbatch.Options{}, record{hour, "key", "value"}, record{-1000, "key", "value"})
	rules.MaxBatchBytes = len(batch)
	rules.MaxRecordBytes = 8
	rules.Compacted = true
	rules.SingleBatch = true
	_, err := check.Check(nil, batch, rules, now)
	require.NoError(t, err)
}

func TestCoordinatorMayMark(t *testing.T) {
	batch := build(t, recordbatch.Options{Control: true, Producer: &recordbatch.Producer{ID: 3, Epoch: 0, BaseSequence: -1}}, record{0, "k", "v"})
	rules := check.DefaultRules()
	_, err := check.Check(nil, batch, rules, now)
	require.Error(t, err)
	rules.Origin = storagev1.Origin_ORIGIN_COORDINATOR
	_, err = check.Check(nil, batch, rules, now)
	require.NoError(t, err)
}

// one is the only batch of an append that passes, whose bytes must be its own
// when they differ from the caller's.
func one(t *testing.T, batch []byte, rules check.Rules) check.Batch {
	t.Helper()
	before := bytes.Clone(batch)
	checked, err := check.Check(nil, batch, rules, now)
	require.NoError(t, err)
	require.Equal(t, before, batch, "the caller's bytes are left alone")
	require.Len(t, checked, 1)
	got := checked[0]
	require.NoError(t, recordbatch.CheckCRC(got.Bytes))
	h, err := recordbatch.ParseHeader(got.Bytes)
	require.NoError(t, err)
	require.Equal(t, h, got.Header)
	require.Equal(t, h.MaxTimestamp, got.MaxTimestamp)
	require.Equal(t, len(got.Bytes), h.Size())

	again, err := check.Check(nil, got.Bytes, check.Rules{TimestampAfterMaxMs: math.MaxInt64, TimestampBeforeMaxMs: math.MaxInt64}, now)
	if !h.Attributes.LogAppendTime() {
		require.NoError(t, err)
		require.Equal(t, got, again[0], "put right once")
	}
	return got
}

func TestMaxTimestampIsPutRight(t *testing.T) {
	for _, wrong := range []int64{0, -1, now.UnixMilli() + 4, now.UnixMilli() + 6, math.MaxInt64} {
		got := one(t, edited(t, three(t), func(h *recordbatch.Header) { h.MaxTimestamp = wrong }), check.DefaultRules())
		require.Equal(t, three(t), got.Bytes)
		require.Equal(t, now.UnixMilli()+5, got.MaxTimestamp)
		require.EqualValues(t, 1, got.MaxTimestampOffsetDelta)
	}
}

func TestRecordsWithoutTimestamp(t *testing.T) {
	batch := build(t, recordbatch.Options{}, record{-1 - now.UnixMilli(), "k", "v"})
	rules := check.DefaultRules()
	rules.TimestampBeforeMaxMs = 1000
	got := one(t, batch, rules)
	require.EqualValues(t, -1, got.MaxTimestamp)
	require.EqualValues(t, -1, got.MaxTimestampOffsetDelta)
}

func TestLogAppendTime(t *testing.T) {
	rules := check.DefaultRules()
	rules.TimestampType = check.AppendTime
	rules.TimestampBeforeMaxMs = 0
	got := one(t, build(t, recordbatch.Options{}, record{9 * hour, "k", "v"}, record{-hour, "k", "v"}), rules)
	require.True(t, got.Header.Attributes.LogAppendTime())
	require.Equal(t, now.UnixMilli(), got.MaxTimestamp)
	require.EqualValues(t, 0, got.MaxTimestampOffsetDelta)
	for r, err := range recordbatch.Records(got.Bytes, recordbatch.Limits{}) {
		require.NoError(t, err)
		require.Equal(t, now.UnixMilli(), r.Timestamp)
	}
}

func TestRecoded(t *testing.T) {
	codecs := []recordbatch.Codec{recordbatch.None, recordbatch.Gzip, recordbatch.Snappy, recordbatch.LZ4, recordbatch.Zstd}
	for _, from := range codecs {
		for _, to := range codecs {
			batch := build(t, recordbatch.Options{Codec: from, Producer: &recordbatch.Producer{ID: 7, Epoch: 1, BaseSequence: 3}},
				record{0, "a", "1"}, record{5, "b", "2"})
			rules := check.DefaultRules()
			rules.Codec = &to
			got := one(t, edited(t, batch, func(h *recordbatch.Header) { h.MaxTimestamp = 1 }), rules)
			require.Equal(t, to, got.Header.Attributes.Codec())
			require.EqualValues(t, 3, got.Header.BaseSequence)
			var values []byte
			for r, err := range recordbatch.Records(got.Bytes, recordbatch.Limits{}) {
				require.NoError(t, err)
				values = append(append(values, r.Key...), r.Value...)
			}
			require.Equal(t, "a1b2", string(values))
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(three(f), false, false, int8(-1))
	f.Add(append(three(f), three(f)...), true, false, int8(0))
	for c := recordbatch.None; c <= recordbatch.Zstd; c++ {
		f.Add(build(f, recordbatch.Options{Codec: c}, record{0, "a", "1"}, record{5, "", "2"}), false, true, int8(c+1)%5)
	}
	f.Fuzz(func(t *testing.T, batches []byte, compacted, appendTime bool, codec int8) {
		rules := check.DefaultRules()
		rules.Compacted = compacted
		rules.MaxInflate = 1 << 20
		if appendTime {
			rules.TimestampType = check.AppendTime
		}
		if c := recordbatch.Codec(codec); c.Known() {
			rules.Codec = &c
		}
		before := bytes.Clone(batches)
		// Damage is what a CRC is for; behind a right one is what the fuzzer
		// should look at.
		for rest := before; len(rest) > 0; {
			batch, next, err := recordbatch.Next(rest)
			if err != nil {
				break
			}
			recordbatch.SealCRC(batch)
			rest = next
		}
		batches = bytes.Clone(before)
		checked, err := check.Check(nil, batches, rules, now)
		if !bytes.Equal(before, batches) {
			t.Fatal("the caller's bytes were changed")
		}
		if err != nil {
			var refused *check.Error
			if !errors.As(err, &refused) || refused.Reason == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		for _, b := range checked {
			if err := recordbatch.CheckCRC(b.Bytes); err != nil {
				t.Fatal(err)
			}
			delta := int32(0)
			for r, err := range recordbatch.Records(b.Bytes, recordbatch.Limits{}) {
				if err != nil {
					t.Fatal(err)
				}
				if r.OffsetDelta != delta || r.Timestamp > b.MaxTimestamp || compacted && r.Key == nil {
					t.Fatalf("%+v", r)
				}
				delta++
			}
			if delta != b.Records || delta != b.Header.Count {
				t.Fatalf("%d records, said to be %d", delta, b.Records)
			}
		}
	})
}
