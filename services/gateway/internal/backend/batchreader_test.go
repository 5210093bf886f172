package backend

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Whatever batches a log has, and however little is read at once, reading on at
// the next offset gives every record once, in order.
func TestReadingOnGivesEveryRecordOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawLog(t)
		offset := rapid.Int64Range(0, log.end+2).Draw(t, "offset")
		var want []int64
		for _, at := range log.records {
			if at >= offset {
				want = append(want, at)
			}
		}
		read := Read{
			MaxRecords: rapid.IntRange(1, 12).Draw(t, "records"),
			MaxBytes:   rapid.IntRange(1, 60).Draw(t, "bytes"),
		}
		fetchBytes := rapid.IntRange(1, 400).Draw(t, "fetch")
		var got []int64
		for offset < log.end {
			read.Offset = offset
			reader := newBatchReader(read)
			require.NoError(t, reader.take(log.fetch(offset, fetchBytes)))
			require.Greater(t, reader.next, offset, "a read goes on")
			require.LessOrEqual(t, len(reader.records), read.MaxRecords)
			if len(reader.records) > 1 {
				require.LessOrEqual(t, reader.bytes, read.MaxBytes)
			}
			for _, r := range reader.records {
				require.Equal(t, strconv.FormatInt(r.Offset, 10), string(r.Value), "a record is where it was written")
				require.Less(t, r.Offset, reader.next)
				got = append(got, r.Offset)
			}
			offset = reader.next
		}
		require.Equal(t, want, got)
	})
}

// drawnLog is a log with gaps, control batches and compressed batches.
type drawnLog struct {
	batches [][]byte
	records []int64 // offsets of the records that readers see
	end     int64
}

func drawLog(t *rapid.T) *drawnLog {
	log := &drawnLog{}
	for range rapid.IntRange(0, 8).Draw(t, "batches") {
		log.end += rapid.Int64Range(0, 3).Draw(t, "gap")
		options := recordbatch.Options{Codec: rapid.SampledFrom([]recordbatch.Codec{recordbatch.None, recordbatch.Gzip, recordbatch.Zstd}).Draw(t, "codec")}
		if rapid.Bool().Draw(t, "control") {
			options = recordbatch.Options{Control: true, Transactional: true, Producer: &recordbatch.Producer{ID: 1}}
		}
		b := recordbatch.NewBuilder(options)
		for i := range rapid.Int64Range(1, 6).Draw(t, "records") {
			b.Append(1, nil, strconv.AppendInt(nil, log.end+i, 10), nil)
			if !options.Control {
				log.records = append(log.records, log.end+i)
			}
		}
		batch, err := b.Finish()
		require.NoError(t, err)
		recordbatch.Stamp(batch, log.end, 1)
		header, err := recordbatch.ParseHeader(batch)
		require.NoError(t, err)
		log.batches, log.end = append(log.batches, batch), header.NextOffset()
	}
	return log
}

// fetch answers as storage does: whole batches, the first whatever its size.
func (l *drawnLog) fetch(offset int64, maxBytes int) *storagev1.FetchResponse_PartitionFetched {
	got := &storagev1.FetchResponse_PartitionFetched{Offset: offset, NextOffset: offset}
	for _, batch := range l.batches {
		header, err := recordbatch.ParseHeader(batch)
		if err != nil || header.NextOffset() <= offset {
			continue
		}
		if len(got.Batches) > 0 && len(got.Batches)+len(batch) > maxBytes {
			break
		}
		got.Batches = append(got.Batches, batch...)
		got.NextOffset = header.NextOffset()
	}
	return got
}

// Bytes that are no batches are an error, whatever they are.
func FuzzTake(f *testing.F) {
	b := recordbatch.NewBuilder(recordbatch.Options{})
	b.Append(1, []byte("key"), []byte("value"), nil)
	batch, err := b.Finish()
	require.NoError(f, err)
	f.Add(batch, int64(0))
	f.Add(batch[:70], int64(1))
	f.Fuzz(func(t *testing.T, batches []byte, offset int64) {
		reader := newBatchReader(Read{Offset: max(offset, 0), MaxRecords: 10, MaxBytes: 100})
		before := reader.next
		_ = reader.take(&storagev1.FetchResponse_PartitionFetched{Batches: batches})
		require.GreaterOrEqual(t, reader.next, before)
		require.LessOrEqual(t, len(reader.records), 10)
	})
}
