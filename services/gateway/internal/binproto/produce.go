package binproto

import (
	"encoding/binary"
	"math"
	"sync"
	"unicode/utf8"

	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/budget"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// errMalformed is that a payload is not what its opcode says.
var errMalformed = errs.New(errs.InvalidArgument, "MALFORMED_FRAME", "malformed frame")

// A produce is one request to append records, with all that it has borrowed.
type produce struct {
	ticket
	// The payload after the topic; records point into it.
	body    []byte
	hold    budget.Hold
	records []backend.NewRecord
	// The id of an idempotent producer, or nil.
	producer *string
}

var produces sync.Pool

func newProduce(r ticket) *produce {
	if p, ok := produces.Get().(*produce); ok {
		p.ticket = r
		return p
	}
	return &produce{ticket: r}
}

// maxPooledRecords is how many records a request in the pool has room for.
const maxPooledRecords = 4096

// release gives back what the request has borrowed. The backend has copied its
// records.
func (p *produce) release() {
	if p.body != nil {
		putBuffer(p.body)
		p.body = nil
	}
	p.hold.Release()
	p.producer = nil
	if cap(p.records) > maxPooledRecords {
		return
	}
	// Not cleared: what it points to is pooled as this is, and goes with it.
	p.records = p.records[:0]
	produces.Put(p)
}

// minRecord is the least that a record takes in a frame: key length, value
// length, partition and sequence.
const minRecord = 4 + 4 + 4 + 8

// noSequence stands where a record has none.
const noSequence = math.MinInt64

// parse reads what follows the topic:
//
//	producer_id  i32 length (-1 = none), then bytes
//	count        u32
//	per record:
//	  key_len    i32 (-1 = no key), then key
//	  value_len  u32, then value
//	  partition  i32 (-1 = route by key)
//	  sequence   i64 (i64::MIN = none)
//
// What count says is believed only as far as the bytes can hold that many
// records. The keys and values are not copied.
func (p *produce) parse(maxRecords int) error {
	d := decoder{b: p.body}
	id := d.nullable("producer_id")
	count := d.u32("count")
	if d.err != nil {
		return d.err
	}
	if id != nil && !utf8.Valid(id) {
		return errMalformed.WithMessage("producer_id must be UTF-8")
	}
	if id != nil {
		p.producer = new(string(id))
	}
	if int64(count)*minRecord > int64(d.left()) {
		return errMalformed.WithMessage("%d records do not fit into the %d bytes after count", count, d.left())
	}
	if int(count) > maxRecords {
		return backend.ErrInvalidRequest.WithMessage("a request must have at most %d records, got %d", maxRecords, count)
	}
	if cap(p.records) < int(count) {
		p.records = make([]backend.NewRecord, 0, count)
	}
	p.records = p.records[:count]
	for i := range p.records {
		if d.whole(&p.records[i]) {
			continue
		}
		// Field by field, to tell which one is wrong.
		d.record = i
		key := d.nullable("key_len")
		value := d.bytes("value_len")
		partition := int32(d.u32("partition"))
		sequence := int64(d.u64("sequence"))
		if d.err != nil {
			return d.err
		}
		if partition < backend.AnyPartition {
			return backend.ErrPartition.WithMessage("records[%d].partition must be -1 or more, got %d", i, partition)
		}
		p.records[i] = newRecord(key, value, partition, sequence)
	}
	if d.left() > 0 {
		return errMalformed.WithMessage("%d bytes follow the last record", d.left())
	}
	return nil
}

func newRecord(key, value []byte, partition int32, sequence int64) backend.NewRecord {
	if sequence == noSequence {
		return backend.NewRecord{Key: key, Value: value, Partition: partition}
	}
	return backend.NewRecord{Key: key, Value: value, Partition: partition, Sequence: sequence, Sequenced: true}
}

// placedSize is what a record takes in the answer.
const placedSize = 4 + 8 + 1

// appendPlaced writes the answer to a produce: count u32, then for each record
// partition u32, offset u64 and duplicate u8.
func appendPlaced(b []byte, placed []backend.Placed) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(placed)))
	for _, at := range placed {
		b = binary.BigEndian.AppendUint32(b, uint32(at.Partition))
		b = binary.BigEndian.AppendUint64(b, uint64(at.Offset))
		duplicate := byte(0)
		if at.Duplicate {
			duplicate = 1
		}
		b = append(b, duplicate)
	}
	return b
}

// A decoder reads fields. Its first error stays, and what is read after it is
// empty.
type decoder struct {
	b []byte
	// What comes next. To move on is to write a number, not a pointer, of which the
	// garbage collector would have to be told.
	at int
	// The record that is being read, for the message.
	record int
	err    error
}

func (d *decoder) left() int { return len(d.b) - d.at }

// take takes n bytes; int is taken to have 64 bits, as it has everywhere that a
// server runs.
func (d *decoder) take(n int, field string) []byte {
	if d.err != nil {
		return nil
	}
	if n > d.left() {
		d.err = errMalformed.WithMessage("the payload ends within %s (record %d): it takes %d bytes, %d are left", field, d.record, n, d.left())
		return nil
	}
	taken := d.b[d.at : d.at+n : d.at+n]
	d.at += n
	return taken
}

// whole reads a record that is all there and sound, which most are; else it reads
// nothing.
func (d *decoder) whole(r *backend.NewRecord) bool {
	b, at := d.b, d.at
	if d.err != nil || len(b)-at < minRecord {
		return false
	}
	var key []byte
	n := int(int32(binary.BigEndian.Uint32(b[at:])))
	at += 4
	if n >= 0 && len(b)-at >= n+minRecord-4 {
		key = b[at : at+n : at+n]
		at += n
	} else if n != -1 {
		return false
	}
	n = int(binary.BigEndian.Uint32(b[at:]))
	at += 4
	if len(b)-at < n+4+8 {
		return false
	}
	value := b[at : at+n : at+n]
	at += n
	partition := int32(binary.BigEndian.Uint32(b[at:]))
	if partition < backend.AnyPartition {
		return false
	}
	*r = newRecord(key, value, partition, int64(binary.BigEndian.Uint64(b[at+4:])))
	d.at = at + 4 + 8
	return true
}

func (d *decoder) u32(field string) uint32 {
	if b := d.take(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64(field string) uint64 {
	if b := d.take(8, field); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// bytes reads bytes with their length before them; they are never nil but after
// an error.
func (d *decoder) bytes(field string) []byte {
	n := d.u32(field)
	return d.take(int(n), field)
}

// nullable reads bytes with their length before them, nil when it is -1.
func (d *decoder) nullable(field string) []byte {
	n := int32(d.u32(field))
	switch {
	case d.err != nil, n == -1:
		return nil
	case n < 0:
		d.err = errMalformed.WithMessage("%s (record %d) must be -1 or more, got %d", field, d.record, n)
		return nil
	default:
		return d.take(int(n), field)
	}
}
