package backend

import (
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// A batchReader takes records out of fetched batches until it has what a read
// asked for.
type batchReader struct {
	// The next offset to read.
	next       int64
	maxRecords int
	maxBytes   int

	records       []Record
	bytes         int // of keys and values in records
	highWatermark int64
	// The next record does not fit anymore.
	full bool
}

func newBatchReader(r Read) *batchReader {
	return &batchReader{next: r.Offset, maxRecords: r.MaxRecords, maxBytes: r.MaxBytes, highWatermark: r.Offset}
}

// A fetch asks for so many bytes for each record that is wanted, so that few
// records do not cost a megabyte, but for no fewer than minFetch.
const (
	fetchPerRecord = 1 << 10
	minFetch       = 64 << 10
)

// want returns how many bytes of batches to fetch next.
func (r *batchReader) want() int {
	wanted := max((r.maxRecords-len(r.records))*fetchPerRecord, minFetch)
	return min(wanted, r.maxBytes-r.bytes+1)
}

// take reads the batches of an answer. Afterwards next is after all that the
// answer covers, or at the first record that did not fit.
func (r *batchReader) take(got *storagev1.FetchResponse_PartitionFetched) error {
	// Above when the start of the log is; never below, for a reader only goes on.
	r.next = max(r.next, got.GetOffset())
	for rest := got.GetBatches(); ; {
		batch, after, err := recordbatch.Next(rest)
		if err != nil {
			return err
		}
		if batch == nil {
			break
		}
		rest = after
		if err := r.batch(batch); err != nil || r.full {
			return err
		}
	}
	r.next = max(r.next, got.GetNextOffset())
	return nil
}

func (r *batchReader) batch(batch []byte) error {
	// A reader of its own for each batch: the records point into its buffer.
	var reader recordbatch.Reader
	header, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return err
	}
	if header.NextOffset() <= r.next {
		return nil
	}
	if !header.Attributes.Control() {
		if err := reader.Reset(batch, recordbatch.Limits{}); err != nil {
			return err
		}
		for reader.Next() {
			if !r.record(&reader.Record) {
				return nil
			}
		}
		if err := reader.Err(); err != nil {
			return err
		}
	}
	r.next = max(r.next, header.NextOffset())
	return nil
}

// record takes one record, and says whether there may be more.
func (r *batchReader) record(record *recordbatch.Record) bool {
	if record.Offset < r.next {
		return true
	}
	size := len(record.Key) + len(record.Value)
	if len(r.records) == r.maxRecords || len(r.records) > 0 && r.bytes+size > r.maxBytes {
		r.next, r.full = record.Offset, true
		return false
	}
	r.records = append(r.records, Record{
		Offset: record.Offset, TimestampMs: record.Timestamp, Key: record.Key, Value: record.Value,
	})
	r.bytes += size
	r.next = record.Offset + 1
	return true
}
