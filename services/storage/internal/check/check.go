// Package check is what stands between a producer's bytes and the log: the
// leader has every batch and every record of an append checked here, whoever
// sent it, and followers store what passed as it is.
//
// What is wrong is refused, the whole append with it. Three things alone are
// put right, with a new CRC, since a topic's config asks for them or readers
// rely on them: a max timestamp that is not its records' largest, the
// log-append time, and a codec other than the topic's.
//
// Sequences of producers and transactions are not looked at beyond their shape:
// they depend on what is in the log.
//
// # Who owns the bytes
//
// Check changes nothing that it is given, and nor does the log after it: a batch
// in order comes out as the very bytes that went in, and offset and leader epoch
// are stamped into a copy of its header. A caller in the same process must leave
// the bytes as they are until the append is done, and may try again with them.
package check

import (
	"fmt"
	"sync"
	"time"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Batch is one batch of an append that may be written.
type Batch struct {
	// Bytes is the batch. See "Who owns the bytes".
	Bytes []byte
	// Header is what stands in Bytes.
	Header recordbatch.Header
	// MaxTimestamp is the largest of its records; -1 when none has one.
	MaxTimestamp int64
	// MaxTimestampOffsetDelta is the first record with the largest timestamp;
	// -1 when none has one.
	MaxTimestampOffsetDelta int32
	// Records is how many there are, at least one.
	Records int32
}

// readers keep the buffers that batches are decompressed to.
var readers = sync.Pool{New: func() any { return new(recordbatch.Reader) }}

// Check checks batches that stand one after the other, and appends them to dst: at
// least one. An error is an *Error.
func Check(dst []Batch, batches []byte, rules Rules, now time.Time) ([]Batch, error) {
	c := checker{rules: rules, now: now.UnixMilli(), reader: readers.Get().(*recordbatch.Reader)}
	defer func() {
		c.reader.Idle()
		readers.Put(c.reader)
	}()
	before := len(dst)
	for len(batches) > 0 {
		// The header is read once; it is large enough for that to matter.
		h, err := recordbatch.ParseHeader(batches)
		if err != nil {
			return nil, c.batchError(err)
		}
		batch, rest, err := h.Cut(batches)
		if err != nil {
			return nil, c.batchError(err)
		}
		if rules.SingleBatch && len(dst) > before {
			return nil, c.refuse(invalid, "expected one batch, got several")
		}
		dst = append(dst, Batch{Bytes: batch, Header: h, Records: h.Count})
		if err := c.check(&dst[len(dst)-1]); err != nil {
			return nil, err
		}
		c.before += int(h.Count)
		batches = rest
	}
	if len(dst) == before {
		return nil, c.refuse(invalid, "expected a record batch, got no bytes")
	}
	return dst, nil
}

// checker checks one append.
type checker struct {
	rules  Rules
	now    int64 // milliseconds
	reader *recordbatch.Reader
	before int // records of the batches before this one
}

// check checks a batch that has its bytes and its header.
func (c *checker) check(b *Batch) (err error) {
	if err := c.checkSize(len(b.Bytes)); err != nil {
		return err
	}
	if err := recordbatch.CheckCRC(b.Bytes); err != nil {
		return c.batchError(err)
	}
	if err := c.checkHeader(&b.Header); err != nil {
		return err
	}
	if err := c.reader.ResetParsed(&b.Header, b.Bytes, recordbatch.Limits{MaxInflate: c.rules.MaxInflate}); err != nil {
		return c.batchError(err)
	}
	if b.MaxTimestamp, b.MaxTimestampOffsetDelta, err = c.checkRecords(); err != nil {
		return err
	}
	return c.rewrite(b)
}

func (c *checker) checkSize(size int) error {
	if limit := c.rules.MaxBatchBytes; limit > 0 && size > limit {
		return c.refuse(tooLarge, fmt.Sprintf("expected a batch of at most %d bytes, got %d", limit, size))
	}
	return nil
}

func (c *checker) checkHeader(h *recordbatch.Header) error {
	a := h.Attributes
	switch {
	case h.BaseOffset != 0:
		return c.refuse(invalid, fmt.Sprintf("expected base offset 0, got %d", h.BaseOffset))
	case h.Count <= 0:
		return c.refuse(invalid, "expected at least one record, got none")
	case h.LastOffsetDelta != h.Count-1:
		return c.refuse(invalid, fmt.Sprintf("expected last offset delta %d for %d records, got %d", h.Count-1, h.Count, h.LastOffsetDelta))
	case a.Control() && c.rules.Origin != storagev1.Origin_ORIGIN_COORDINATOR:
		return c.refuse(invalid, "control batches (attribute bit 5) are not for clients")
	case a.HorizonSet():
		return c.refuse(invalid, "the deletion horizon (attribute bit 6) is compaction's alone")
	case a.LogAppendTime():
		return c.refuse(invalidTimestamp, "expected create time, got log-append time (attribute bit 3), which is the leader's to set")
	case !a.Codec().Known():
		return c.refuse(invalid, fmt.Sprintf("expected a compression codec of 0 to 4, got %d", int8(a.Codec())))
	}
	return c.checkProducer(h)
}

func (c *checker) checkProducer(h *recordbatch.Header) error {
	switch {
	case h.ProducerID < -1:
		return c.refuse(invalid, fmt.Sprintf("expected a producer id of at least -1, got %d", h.ProducerID))
	case h.ProducerID == -1 && h.Attributes.Transactional():
		return c.refuse(invalid, "expected a producer id with a transactional batch, got none")
	case h.ProducerID == -1:
		return nil
	case h.ProducerEpoch < 0:
		return c.refuse(invalid, fmt.Sprintf("expected a producer epoch with producer id %d, got %d", h.ProducerID, h.ProducerEpoch))
	case h.BaseSequence < 0 && !h.Attributes.Control(): // markers have none
		return c.refuse(invalid, fmt.Sprintf("expected a sequence with producer id %d, got %d", h.ProducerID, h.BaseSequence))
	}
	return nil
}

// checkRecords walks the reader's records and returns the largest timestamp,
// with the offset delta of the first record that has it.
func (c *checker) checkRecords() (largest int64, at int32, err error) {
	earliest, latest := c.rules.timestampRange(c.now)
	largest, at = noTimestamp, -1
	r := c.reader
	record := &r.Record
	want := int32(0)
	for ; r.Next(); want++ {
		ts := record.Timestamp
		switch {
		case record.OffsetDelta != want:
			err = c.refuseRecord(want, invalid, fmt.Sprintf("expected offset delta %d, got %d", want, record.OffsetDelta))
		case record.Key == nil && c.rules.Compacted:
			err = c.refuseRecord(want, invalid, "expected a key on a compacted topic, got none")
		case c.rules.MaxRecordBytes > 0 && recordSize(record) > c.rules.MaxRecordBytes:
			err = c.refuseRecord(want, tooLarge, fmt.Sprintf("expected a record of at most %d bytes, got %d", c.rules.MaxRecordBytes, recordSize(record)))
		case (ts < r.Header.BaseTimestamp) != (record.TimestampDelta < 0):
			err = c.refuseRecord(want, invalidTimestamp, fmt.Sprintf("base timestamp %d and delta %d overflow", r.Header.BaseTimestamp, record.TimestampDelta))
		case (ts < earliest || ts > latest) && ts != noTimestamp:
			err = c.refuseRecord(want, invalidTimestamp, fmt.Sprintf("expected a timestamp of %d to %d, got %d", earliest, latest, ts))
		}
		if err != nil {
			return 0, 0, err
		}
		if ts > largest {
			largest, at = ts, want
		}
	}
	if err := r.Err(); err != nil {
		return 0, 0, c.refuseRecord(want, invalid, err.Error())
	}
	return largest, at, nil
}

// recordSize is what counts against MaxRecordBytes: what the producer gave, not
// how it is framed.
func recordSize(r *recordbatch.Record) int { return len(r.Key) + len(r.Value) + r.Headers.Size() }
