package recordbatch

import (
	"fmt"
	"iter"
)

// DefaultMaxInflate is Limits.MaxInflate where none is given.
const DefaultMaxInflate = 64 << 20

// Limits bound what a batch from outside may cost.
type Limits struct {
	// MaxInflate is how many bytes compressed records may become; 0 is
	// DefaultMaxInflate. It is held while reading, whatever sizes the
	// compressed bytes claim.
	MaxInflate int
}

func (l Limits) maxInflate() int {
	if l.MaxInflate > 0 {
		return l.MaxInflate
	}
	return DefaultMaxInflate
}

// Reader walks the records of batches, one batch after the other. The zero value
// is ready for Reset. It is not for use by several goroutines.
//
//	if err := r.Reset(batch, limits); err != nil { … }
//	for r.Next() {
//		use(&r.Record)
//	}
//	if err := r.Err(); err != nil { … }
type Reader struct {
	// Header is the batch's.
	Header Header
	// Record is the current record, after Next returned true. Its slices are
	// valid until the next Reset; the struct until the next Next.
	Record Record

	records []byte // of the batch, decompressed
	pos     int    // pos <= len(records)
	read    int32  // read <= Header.Count
	err     error

	inflated []byte // kept over batches
}

// Reset starts with the first record of a batch: its header is read and its
// records are decompressed. The CRC is not checked; the batch's bytes are
// exactly these. The reader keeps the batch until the next Reset.
func (r *Reader) Reset(batch []byte, limits Limits) error {
	h, err := ParseHeader(batch)
	if err != nil {
		r.clear()
		return err
	}
	return r.ResetParsed(&h, batch, limits)
}

// ResetParsed is Reset of a batch whose header ParseHeader has read before.
func (r *Reader) ResetParsed(h *Header, batch []byte, limits Limits) (err error) {
	r.clear()
	if h.Size() != len(batch) {
		return fmt.Errorf("%w: expected %d bytes, got %d", ErrTruncated, h.Size(), len(batch))
	}
	records := batch[HeaderSize:]
	if codec := h.Attributes.Codec(); codec != None && h.Count > 0 {
		if records, err = Decompress(codec, r.inflated[:0], records, limits); err != nil {
			return err
		}
		r.inflated = records
	}
	if int64(h.Count)*minRecordSize > int64(len(records)) {
		return fmt.Errorf("%w: %d records in %d bytes", ErrMalformed, h.Count, len(records))
	}
	r.Header, r.records = *h, records
	return nil
}

// clear makes the reader as it was at first, but for the buffer that it keeps.
func (r *Reader) clear() { *r = Reader{inflated: r.inflated} }

// Next steps to the next record and tells whether there is one. After false,
// Err tells whether the batch was sound.
func (r *Reader) Next() bool {
	if r.err != nil {
		return false
	}
	if r.read == r.Header.Count {
		if left := len(r.records) - r.pos; left > 0 {
			r.err = fmt.Errorf("%w: %d bytes after the last record", ErrMalformed, left)
		}
		return false
	}
	v, at := shortUvarint(r.records, r.pos)
	if at < 0 {
		v, at = uvarint(r.records, r.pos)
	}
	if at < 0 || v&1 != 0 || v>>1 > uint64(len(r.records)-at) {
		r.err = fmt.Errorf("%w: a record's length passes the batch's end", ErrMalformed)
		return false
	}
	end := at + int(v>>1)
	if err := r.Record.decode(r.records[at:end]); err != nil {
		r.err = err
		return false
	}
	r.pos = end
	r.read++
	r.Record.Offset = r.Header.BaseOffset + int64(r.Record.OffsetDelta)
	if r.Header.Attributes.LogAppendTime() {
		r.Record.Timestamp = r.Header.MaxTimestamp
	} else {
		r.Record.Timestamp = r.Header.BaseTimestamp + r.Record.TimestampDelta
	}
	return true
}

// Err is what was wrong with the record after the last one that Next read.
func (r *Reader) Err() error { return r.err }

// Raw is the bytes of all records, decompressed, valid until the next Reset.
func (r *Reader) Raw() []byte { return r.records }

// keepInflated is how large a buffer an idle reader may keep.
const keepInflated = 4 << 20

// Idle lets go of the batch, and of a buffer that was needed for an unusually
// large one, so that a pool of readers keeps little.
func (r *Reader) Idle() {
	if cap(r.inflated) > keepInflated {
		r.inflated = nil
	}
	r.clear()
}

// Records yields the records of one batch, and an error in place of the record
// at which it broke. The slices of a record stay valid as long as the batch's
// bytes do.
func Records(batch []byte, limits Limits) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var r Reader
		if err := r.Reset(batch, limits); err != nil {
			yield(Record{}, err)
			return
		}
		for r.Next() {
			if !yield(r.Record, nil) {
				return
			}
		}
		if r.Err() != nil {
			yield(Record{}, fmt.Errorf("record %d: %w", r.read, r.Err()))
		}
	}
}
