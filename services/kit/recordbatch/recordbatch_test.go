package recordbatch_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

var codecs = []recordbatch.Codec{
	recordbatch.None, recordbatch.Gzip, recordbatch.Snappy, recordbatch.LZ4, recordbatch.Zstd,
}

// item is a record with all that a test says of it.
type item struct {
	Timestamp  int64
	Key, Value []byte
	Headers    []recordbatch.RecordHeader
}

func read(t require.TestingT, batch []byte) []item {
	var got []item
	next := int64(0)
	for r, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
		require.NoError(t, err)
		require.Equal(t, next, r.Offset)
		next++
		it := item{Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
		for k, v := range r.Headers.All() {
			it.Headers = append(it.Headers, recordbatch.RecordHeader{Key: string(k), Value: v})
		}
		require.Len(t, it.Headers, r.Headers.Len())
		got = append(got, it)
	}
	return got
}

func build(t require.TestingT, options recordbatch.Options, items []item) []byte {
	b := recordbatch.NewBuilder(options)
	for _, it := range items {
		want := b.SizeWith(it.Timestamp, it.Key, it.Value, it.Headers)
		b.Append(it.Timestamp, it.Key, it.Value, it.Headers)
		require.Equal(t, want, b.Size())
	}
	require.Equal(t, len(items), b.Count())
	batch, err := b.Finish()
	require.NoError(t, err)
	require.Zero(t, b.Count())
	require.Equal(t, recordbatch.HeaderSize, b.Size())
	return batch
}

var bytesOrNil = rapid.Custom(func(t *rapid.T) []byte {
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return bytes.Repeat([]byte{'r'}, rapid.IntRange(1, 20_000).Draw(t, "size"))
	}
	return rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "bytes")
})

var itemGen = rapid.Custom(func(t *rapid.T) item {
	it := item{
		Timestamp: rapid.OneOf(rapid.Int64Range(1_700_000_000_000, 1_700_000_100_000), rapid.Int64Range(-1, math.MaxInt64/2)).Draw(t, "timestamp"),
		Key:       bytesOrNil.Draw(t, "key"),
		Value:     bytesOrNil.Draw(t, "value"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		it.Headers = append(it.Headers, recordbatch.RecordHeader{
			Key: rapid.StringN(0, 10, -1).Draw(t, "header"), Value: bytesOrNil.Draw(t, "header value"),
		})
	}
	return it
})

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(itemGen, 1, 40).Draw(t, "items")
		codec := rapid.SampledFrom(codecs).Draw(t, "codec")
		batch := build(t, recordbatch.Options{Codec: codec}, items)
		require.NoError(t, recordbatch.CheckCRC(batch))
		require.Equal(t, items, read(t, batch))

		h, err := recordbatch.ParseHeader(batch)
		require.NoError(t, err)
		require.Equal(t, len(batch), h.Size())
		require.Equal(t, codec, h.Attributes.Codec())
		require.EqualValues(t, len(items), h.Count)
		require.EqualValues(t, len(items), h.NextOffset())
		require.EqualValues(t, -1, h.ProducerID)

		other := rapid.SampledFrom(codecs).Draw(t, "other codec")
		recoded, err := recordbatch.Recode(batch, other, recordbatch.Limits{})
		require.NoError(t, err)
		require.NoError(t, recordbatch.CheckCRC(recoded))
		require.Equal(t, items, read(t, recoded))
	})
}

func TestHeaderRoundTrip(t *testing.T) {
	h := recordbatch.Header{
		BaseOffset: 1 << 40, Length: 1234, LeaderEpoch: 7, Magic: 2, CRC: 0xdeadbeef,
		Attributes: recordbatch.Transactional | recordbatch.Control, LastOffsetDelta: 9,
		BaseTimestamp: 11, MaxTimestamp: 12, ProducerID: 1 << 50, ProducerEpoch: 13, BaseSequence: 14, Count: 10,
	}
	b := make([]byte, recordbatch.HeaderSize)
	recordbatch.PutHeader(b, h)
	got, err := recordbatch.ParseHeader(b)
	require.NoError(t, err)
	require.Equal(t, h, got)
	require.EqualValues(t, 1<<40+9, got.LastOffset())
	require.Equal(t, 1246, got.Size())

	var k kmsg.RecordBatch
	require.NoError(t, k.ReadFrom(append(b, make([]byte, 1246-len(b))...)))
	require.Equal(t, h.BaseOffset, k.FirstOffset)
	require.Equal(t, h.LeaderEpoch, k.PartitionLeaderEpoch)
	require.Equal(t, h.CRC, uint32(k.CRC))
	require.Equal(t, int16(h.Attributes), k.Attributes)
	require.Equal(t, h.ProducerID, k.ProducerID)
	require.Equal(t, h.ProducerEpoch, k.ProducerEpoch)
	require.Equal(t, h.BaseSequence, k.FirstSequence)
	require.Equal(t, h.Count, k.NumRecords)
}

func TestBuilderOptions(t *testing.T) {
	b := recordbatch.NewBuilder(recordbatch.Options{
		Producer:      &recordbatch.Producer{ID: 5, Epoch: 6, BaseSequence: 7},
		Transactional: true, Control: true,
	})
	_, err := b.Finish()
	require.ErrorIs(t, err, recordbatch.ErrMalformed, "no records")
	b.Append(30, nil, []byte("a"), nil)
	b.Append(10, nil, []byte("b"), nil)
	first, err := b.Finish()
	require.NoError(t, err)
	h, err := recordbatch.ParseHeader(first)
	require.NoError(t, err)
	require.True(t, h.Attributes.Transactional())
	require.True(t, h.Attributes.Control())
	require.EqualValues(t, 5, h.ProducerID)
	require.EqualValues(t, 6, h.ProducerEpoch)
	require.EqualValues(t, 7, h.BaseSequence)
	require.EqualValues(t, 30, h.BaseTimestamp)
	require.EqualValues(t, 30, h.MaxTimestamp)
	require.EqualValues(t, -1, h.LeaderEpoch)

	kept := bytes.Clone(first)
	b.SetProducer(nil)
	b.Append(1, []byte("other"), []byte("bytes"), nil)
	second, err := b.Finish()
	require.NoError(t, err)
	require.Equal(t, kept, first, "a finished batch is the caller's")
	h, err = recordbatch.ParseHeader(second)
	require.NoError(t, err)
	require.EqualValues(t, -1, h.ProducerID)
}

func TestStampKeepsTheCRC(t *testing.T) {
	batch := build(t, recordbatch.Options{}, []item{{Value: []byte("v")}, {Value: []byte("w")}})
	recordbatch.Stamp(batch, 1<<40, 17)
	require.NoError(t, recordbatch.CheckCRC(batch))
	h, err := recordbatch.ParseHeader(batch)
	require.NoError(t, err)
	require.EqualValues(t, 1<<40, h.BaseOffset)
	require.EqualValues(t, 17, h.LeaderEpoch)
	for r, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Offset, int64(1<<40))
	}

	batch[len(batch)-2] ^= 1
	require.ErrorIs(t, recordbatch.CheckCRC(batch), recordbatch.ErrCRC)
	recordbatch.SealCRC(batch)
	require.NoError(t, recordbatch.CheckCRC(batch))
}

func TestNext(t *testing.T) {
	a := build(t, recordbatch.Options{}, []item{{Value: []byte("a")}})
	b := build(t, recordbatch.Options{}, []item{{Value: []byte("bb")}})
	both := append(bytes.Clone(a), b...)
	got, rest, err := recordbatch.Next(both)
	require.NoError(t, err)
	require.Equal(t, a, got)
	require.Equal(t, len(a), cap(got), "an append to one must not write into the next")
	got, rest, err = recordbatch.Next(rest)
	require.NoError(t, err)
	require.Equal(t, b, got)
	got, rest, err = recordbatch.Next(rest)
	require.NoError(t, err)
	require.Nil(t, got)
	require.Empty(t, rest)
	for cut := 1; cut < len(a); cut++ {
		_, _, err := recordbatch.Next(a[:cut])
		require.ErrorIs(t, err, recordbatch.ErrTruncated)
	}
}

func TestLogAppendTime(t *testing.T) {
	batch := build(t, recordbatch.Options{}, []item{{Timestamp: 1}, {Timestamp: 2}})
	h, err := recordbatch.ParseHeader(batch)
	require.NoError(t, err)
	h.Attributes |= recordbatch.LogAppendTime
	h.MaxTimestamp = 99
	recordbatch.PutHeader(batch, h)
	for _, it := range read(t, batch) {
		require.EqualValues(t, 99, it.Timestamp)
	}
}

// A batch that compaction emptied to keep the producer's sequence.
func TestEmptyBatch(t *testing.T) {
	b := make([]byte, recordbatch.HeaderSize)
	recordbatch.PutHeader(b, recordbatch.Header{
		Length: recordbatch.HeaderSize - 12, Magic: 2, LastOffsetDelta: 4,
		Attributes: recordbatch.Attributes(0).WithCodec(recordbatch.Zstd),
	})
	require.Empty(t, read(t, b))
}

func TestBadHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(b []byte)
		want error
	}{
		"magic 0":               {func(b []byte) { b[16] = 0 }, recordbatch.ErrOldFormat},
		"magic 1":               {func(b []byte) { b[16] = 1 }, recordbatch.ErrOldFormat},
		"magic 3":               {func(b []byte) { b[16] = 3 }, recordbatch.ErrMagic},
		"magic -1":              {func(b []byte) { b[16] = 0xff }, recordbatch.ErrMagic},
		"length negative":       {func(b []byte) { b[8] = 0xff }, recordbatch.ErrMalformed},
		"length short":          {func(b []byte) { binary.BigEndian.PutUint32(b[8:], 48) }, recordbatch.ErrMalformed},
		"base offset negative":  {func(b []byte) { b[0] = 0x80 }, recordbatch.ErrMalformed},
		"last offset overflows": {func(b []byte) { binary.BigEndian.PutUint64(b, math.MaxInt64) }, recordbatch.ErrMalformed},
		"delta negative":        {func(b []byte) { b[23] = 0x80 }, recordbatch.ErrMalformed},
		"count negative":        {func(b []byte) { b[57] = 0x80 }, recordbatch.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			b := build(t, recordbatch.Options{}, []item{{Value: []byte("v")}})
			c.edit(b)
			_, err := recordbatch.ParseHeader(b)
			require.ErrorIs(t, err, c.want)
			_, _, err = recordbatch.Next(b)
			require.ErrorIs(t, err, c.want)
			var r recordbatch.Reader
			require.ErrorIs(t, r.Reset(b, recordbatch.Limits{}), c.want)
			require.False(t, r.Next())
		})
	}
}

// withRecords is a batch whose records are these bytes, whatever they say.
func withRecords(count int32, codec recordbatch.Codec, records []byte) []byte {
	b := make([]byte, recordbatch.HeaderSize, recordbatch.HeaderSize+len(records))
	b = append(b, records...)
	recordbatch.PutHeader(b, recordbatch.Header{
		Length: int32(len(b) - 12), Magic: 2, Attributes: recordbatch.Attributes(0).WithCodec(codec),
		LastOffsetDelta: max(count-1, 0), Count: count, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	})
	recordbatch.SealCRC(b)
	return b
}

func TestHostileRecords(t *testing.T) {
	good := []byte{12, 0, 0, 0, 1, 1, 0} // length 6, null key and value, no headers
	huge := []byte{0xfe, 0xff, 0xff, 0xff, 0x0f}
	long := bytes.Repeat([]byte{0xff}, 12)
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	sized := func(body ...[]byte) []byte {
		b := cat(body...)
		return append([]byte{byte(len(b) << 1)}, b...)
	}
	require.Len(t, read(t, withRecords(1, recordbatch.None, good)), 1)

	for name, c := range map[string]struct {
		count   int32
		records []byte
	}{
		"no bytes":                {1, nil},
		"count past the bytes":    {math.MaxInt32, good},
		"one record too few":      {2, cat(good, good[:6], nil)},
		"one record too many":     {1, cat(good, good)},
		"trailing byte":           {1, cat(good, []byte{0})},
		"records beside count 0":  {0, good},
		"length negative":         {1, cat([]byte{1}, good[1:])},
		"length past the end":     {1, cat(huge, good)},
		"length never ends":       {1, long},
		"record too short":        {1, cat([]byte{8, 0, 0, 0, 1, 1}, []byte{0})},
		"timestamp never ends":    {1, sized([]byte{0}, long)},
		"offset too large":        {1, sized([]byte{0, 0}, []byte{0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0})},
		"key negative":            {1, sized([]byte{0, 0, 0, 3, 1, 0})},
		"key past the end":        {1, sized([]byte{0, 0, 0, 20, 1, 0})},
		"key huge":                {1, sized([]byte{0, 0, 0}, huge, []byte{1, 0})},
		"value negative":          {1, sized([]byte{0, 0, 0, 1, 5, 0})},
		"value past the end":      {1, sized([]byte{0, 0, 0, 1, 20, 0})},
		"no header count":         {1, sized([]byte{0, 0, 0, 1, 2, 'v'})},
		"headers negative":        {1, sized([]byte{0, 0, 0, 1, 1, 1})},
		"headers huge":            {1, sized([]byte{0, 0, 0, 1, 1}, huge)},
		"header key null":         {1, sized([]byte{0, 0, 0, 1, 1, 2, 1, 1})},
		"header key past the end": {1, sized([]byte{0, 0, 0, 1, 1, 2, 40, 1})},
		"header value negative":   {1, sized([]byte{0, 0, 0, 1, 1, 2, 0, 3})},
		"bytes after the headers": {1, sized([]byte{0, 0, 0, 1, 1, 2, 0, 1, 0})},
		"bytes after no headers":  {1, sized([]byte{0, 0, 0, 1, 1, 0, 0})},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, walk(withRecords(c.count, recordbatch.None, c.records)), recordbatch.ErrMalformed)
			packed, err := recordbatch.Compress(recordbatch.LZ4, nil, c.records)
			require.NoError(t, err)
			if c.count > 0 {
				require.ErrorIs(t, walk(withRecords(c.count, recordbatch.LZ4, packed)), recordbatch.ErrMalformed)
			}
		})
	}
}

// walk reads all records and returns the error at which they end.
func walk(batch []byte) error {
	for _, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// A reader of the header may set aside memory for as many records as it says.
func TestCountIsNotBelievedBlindly(t *testing.T) {
	var r recordbatch.Reader
	require.NoError(t, r.Reset(withRecords(2, recordbatch.None, make([]byte, 14)), recordbatch.Limits{}))
	require.ErrorIs(t, r.Reset(withRecords(3, recordbatch.None, make([]byte, 20)), recordbatch.Limits{}), recordbatch.ErrMalformed)
}

func TestIdleReaderIsUsable(t *testing.T) {
	var r recordbatch.Reader
	for range 2 {
		value := bytes.Repeat([]byte{'v'}, 5<<20)
		batch := build(t, recordbatch.Options{Codec: recordbatch.LZ4}, []item{{Value: value}})
		require.NoError(t, r.Reset(batch, recordbatch.Limits{}))
		require.True(t, r.Next())
		require.Equal(t, value, r.Record.Value)
		r.Idle()
		require.False(t, r.Next())
		require.NoError(t, r.Err())
	}
}

func TestInflateIsBounded(t *testing.T) {
	const limit = 100_000
	plain := bytes.Repeat([]byte("a bomb "), 5*limit)
	random := make([]byte, limit)
	for i := range random {
		random[i] = byte(i * i >> 3)
	}
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			packed, err := recordbatch.Compress(codec, nil, plain)
			require.NoError(t, err)
			_, err = recordbatch.Decompress(codec, nil, packed, recordbatch.Limits{MaxInflate: limit})
			require.ErrorIs(t, err, recordbatch.ErrInflate)

			for _, size := range []int{0, 1, 1000, limit} {
				packed, err = recordbatch.Compress(codec, []byte("before"), random[:size])
				require.NoError(t, err)
				require.Equal(t, "before", string(packed[:6]))
				got, err := recordbatch.Decompress(codec, []byte("kept"), packed[6:], recordbatch.Limits{MaxInflate: limit})
				if size == 0 && codec == recordbatch.Zstd && len(packed) == 6 {
					continue
				}
				require.NoError(t, err)
				require.Equal(t, "kept"+string(random[:size]), string(got))
			}
			packed, err = recordbatch.Compress(codec, nil, append(random, 'x'))
			require.NoError(t, err)
			_, err = recordbatch.Decompress(codec, nil, packed, recordbatch.Limits{MaxInflate: limit})
			require.ErrorIs(t, err, recordbatch.ErrInflate, "one byte too many")
		})
	}
}

// A few bytes that claim gigabytes must not take memory.
func TestClaimedSizesAllocateNothing(t *testing.T) {
	gigabyte := binary.AppendUvarint(nil, 1<<30)
	for name, c := range map[string]struct {
		codec recordbatch.Codec
		src   []byte
	}{
		"snappy length":      {recordbatch.Snappy, append(gigabyte, 0, 'a')},
		"xerial block":       {recordbatch.Snappy, append([]byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff"), gigabyte...)},
		"xerial inner":       {recordbatch.Snappy, append([]byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x05"), gigabyte...)},
		"zstd content size":  {recordbatch.Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x3f, 1, 0, 0}},
		"zstd window":        {recordbatch.Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 1, 0, 0}},
		"lz4 content length": {recordbatch.LZ4, []byte{0x04, 0x22, 0x4d, 0x18, 0x68, 0x40, 0, 0, 0, 0x40, 0, 0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			limits := recordbatch.Limits{MaxInflate: 2 << 30}
			_, _ = recordbatch.Decompress(c.codec, nil, c.src, limits) // pools fill
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := recordbatch.Decompress(c.codec, nil, c.src, limits)
			runtime.ReadMemStats(&after)
			if name != "zstd window" { // an empty frame, and a legal one
				require.ErrorIs(t, err, recordbatch.ErrMalformed)
			}
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
}

func TestTruncatedCompression(t *testing.T) {
	plain := bytes.Repeat([]byte("some text that packs well; "), 200)
	for _, codec := range codecs[1:] {
		packed, err := recordbatch.Compress(codec, nil, plain)
		require.NoError(t, err)
		for cut := range packed {
			got, err := recordbatch.Decompress(codec, nil, packed[:cut], recordbatch.Limits{})
			if err == nil { // LZ4 without its end mark has all its bytes
				require.Truef(t, bytes.HasPrefix(plain, got), "%v cut at %d", codec, cut)
			}
		}
	}
	_, err := recordbatch.Decompress(5, nil, nil, recordbatch.Limits{})
	require.ErrorIs(t, err, recordbatch.ErrCodec)
	_, err = recordbatch.Compress(5, nil, nil)
	require.ErrorIs(t, err, recordbatch.ErrCodec)
}

// snappy-java writes its versions in either byte order; nothing hangs on them.
func TestXerial(t *testing.T) {
	var framed []byte
	framed = append(framed, "\x82SNAPPY\x00\x01\x00\x00\x00\x01\x00\x00\x00"...)
	var want []byte
	for _, part := range []string{"first block, ", "second block, ", strings.Repeat("third ", 100)} {
		block, err := recordbatch.Compress(recordbatch.Snappy, nil, []byte(part))
		require.NoError(t, err)
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(block)))
		framed = append(framed, block...)
		want = append(want, part...)
	}
	got, err := recordbatch.Decompress(recordbatch.Snappy, nil, framed, recordbatch.Limits{})
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	_, err = recordbatch.Decompress(recordbatch.Snappy, nil, framed, recordbatch.Limits{MaxInflate: len(want) - 1})
	require.ErrorIs(t, err, recordbatch.ErrInflate)
	for cut := len("\x82SNAPPY\x00") + 8 + 1; cut < len(framed); cut++ {
		got, err := recordbatch.Decompress(recordbatch.Snappy, nil, framed[:cut], recordbatch.Limits{})
		if err == nil { // cut between two blocks
			require.Less(t, len(got), len(want))
		}
	}
}

func TestCodecNames(t *testing.T) {
	for _, c := range codecs {
		got, err := recordbatch.ParseCodec(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	got, err := recordbatch.ParseCodec("none")
	require.NoError(t, err)
	require.Equal(t, recordbatch.None, got)
	_, err = recordbatch.ParseCodec("brotli")
	require.ErrorIs(t, err, recordbatch.ErrCodec)
	require.Equal(t, "codec 5", recordbatch.Codec(5).String())
}

var update = flag.Bool("update", false, "have franz-go write testdata again")

var goldenItems = func() []item {
	items := []item{
		{Timestamp: 1_700_000_000_000, Key: []byte("key"), Value: []byte("value")},
		{Timestamp: 1_700_000_000_005, Value: []byte{}},
		{Timestamp: 1_699_999_999_000, Key: []byte{}, Headers: []recordbatch.RecordHeader{{Key: "trace", Value: []byte("00-1")}, {Key: "null"}}},
	}
	for range 50 {
		items = append(items, item{Timestamp: 1_700_000_000_100, Key: []byte("k"), Value: bytes.Repeat([]byte("long value "), 30)})
	}
	return items
}()

// franz is the batch that franz-go makes of these records.
func franz(t *testing.T, codec recordbatch.Codec, items []item) []byte {
	t.Helper()
	var records []byte
	first := items[0].Timestamp
	for i, it := range items {
		r := kmsg.Record{TimestampDelta64: it.Timestamp - first, OffsetDelta: int32(i), Key: it.Key, Value: it.Value}
		for _, h := range it.Headers {
			r.Headers = append(r.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		body := r.AppendTo(nil)
		r.Length = int32(len(body) - 1) // one byte for a length of 0
		records = r.AppendTo(records)
	}
	if codec != recordbatch.None {
		compressor, err := kgo.DefaultCompressor([]kgo.CompressionCodec{
			kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
		}[codec])
		require.NoError(t, err)
		packed, used := compressor.Compress(new(bytes.Buffer), records)
		require.EqualValues(t, codec, used)
		records = packed
	}
	batch := kmsg.RecordBatch{
		Length: int32(recordbatch.HeaderSize - 12 + len(records)), PartitionLeaderEpoch: -1, Magic: 2,
		Attributes: int16(codec), LastOffsetDelta: int32(len(items) - 1),
		FirstTimestamp: first, MaxTimestamp: 1_700_000_000_100,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(items)), Records: records,
	}
	b := batch.AppendTo(nil)
	recordbatch.SealCRC(b)
	return b
}

func TestGoldenFromFranzGo(t *testing.T) {
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			file := filepath.Join("testdata", codec.String()+".batch")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, franz(t, codec, goldenItems), 0o644))
			}
			golden, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, recordbatch.CheckCRC(golden))
			require.Equal(t, goldenItems, read(t, golden))
			if codec == recordbatch.None {
				require.Equal(t, golden, build(t, recordbatch.Options{}, goldenItems), "byte for byte")
			}
		})
	}
}

func TestFranzGoReadsOurs(t *testing.T) {
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			ours := build(t, recordbatch.Options{Codec: codec}, goldenItems)
			var batch kmsg.RecordBatch
			require.NoError(t, batch.ReadFrom(ours))
			plain, err := kgo.DefaultDecompressor().Decompress(batch.Records, kgo.CompressionCodecType(codec))
			require.NoError(t, err)
			theirs := franz(t, recordbatch.None, goldenItems)
			require.Equal(t, theirs[recordbatch.HeaderSize:], plain)
		})
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte{})
	f.Add(withRecords(1, recordbatch.None, []byte{12, 0, 0, 0, 1, 1, 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := recordbatch.ParseHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, recordbatch.HeaderSize)
		recordbatch.PutHeader(again, h)
		if !bytes.Equal(again, b[:recordbatch.HeaderSize]) {
			t.Fatal("a header is not written as it was read")
		}
		if h.NextOffset() <= h.BaseOffset || h.Size() < recordbatch.HeaderSize {
			t.Fatalf("%+v", h)
		}
	})
}

func FuzzRecords(f *testing.F) {
	for _, codec := range codecs {
		golden, err := os.ReadFile(filepath.Join("testdata", codec.String()+".batch"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(golden)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 20
		var items []item
		for r, err := range recordbatch.Records(b, recordbatch.Limits{MaxInflate: limit}) {
			if err != nil {
				return
			}
			it := item{Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
			for k, v := range r.Headers.All() {
				it.Headers = append(it.Headers, recordbatch.RecordHeader{Key: string(k), Value: v})
			}
			items = append(items, it)
		}
		// What one batch held, another can hold.
		if len(items) > 0 {
			again := build(t, recordbatch.Options{}, items)
			if got := read(t, again); len(got) != len(items) {
				t.Fatalf("%d records became %d", len(items), len(got))
			}
		}
	})
}

func FuzzDecompress(f *testing.F) {
	for _, codec := range codecs {
		packed, err := recordbatch.Compress(codec, nil, []byte("some text, some text, some text"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int8(codec), packed)
	}
	f.Add(int8(recordbatch.Snappy), []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x01\x00"))
	f.Fuzz(func(t *testing.T, codec int8, src []byte) {
		const limit = 1 << 16
		out, err := recordbatch.Decompress(recordbatch.Codec(codec), nil, src, recordbatch.Limits{MaxInflate: limit})
		if err == nil && len(out) > limit {
			t.Fatalf("%d bytes of at most %d", len(out), limit)
		}
	})
}
