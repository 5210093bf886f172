package binary

import (
	"encoding/binary"
	"fmt"
	"math"
)

// What is on the wire.
var magic = [4]byte{'E', 'S', '0', '1'}

const (
	maxToken    = 1024
	featureGzip = 1

	// A frame is length u32, request_id u32, opcode u8 and the payload. The
	// length counts all that follows it.
	lengthSize = 4
	headSize   = 5
	frameHead  = lengthSize + headSize

	maxTopic   = 249
	maxLength  = math.MaxInt32
	noSequence = math.MinInt64
)

type opcode uint8

const (
	opProduce opcode = 0x01
	opConsume opcode = 0x02
	opPing    opcode = 0x03
	opError   opcode = 0xFF
)

func (o opcode) response() opcode { return o | 0x80 }

// appendProduce writes the payload of a request that was checked.
func appendProduce(b []byte, p *Produce) []byte {
	b = appendTopic(b, p.Topic)
	if p.ProducerID == "" {
		b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
	} else {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p.ProducerID)))
		b = append(b, p.ProducerID...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.Records)))
	for i := range p.Records {
		r := &p.Records[i]
		if r.Key == nil {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
		} else {
			b = binary.BigEndian.AppendUint32(b, uint32(len(r.Key)))
			b = append(b, r.Key...)
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(r.Value)))
		b = append(b, r.Value...)
		partition := int32(-1)
		if r.Partition.chosen {
			partition = r.Partition.number
		}
		b = binary.BigEndian.AppendUint32(b, uint32(partition))
		sequence := int64(noSequence)
		if r.Sequence.given {
			sequence = r.Sequence.number
		}
		b = binary.BigEndian.AppendUint64(b, uint64(sequence))
	}
	return b
}

// produceSize is how many bytes appendProduce writes.
func produceSize(p *Produce) int {
	size := 2 + len(p.Topic) + 4 + len(p.ProducerID) + 4 + len(p.Records)*(4+4+4+8)
	for i := range p.Records {
		size += len(p.Records[i].Key) + len(p.Records[i].Value)
	}
	return size
}

func appendConsume(b []byte, c *Consume) []byte {
	records, bytes := c.MaxRecords, c.MaxBytes
	if records == 0 {
		records = defaultRecords
	}
	if bytes == 0 {
		bytes = defaultBytes
	}
	b = appendTopic(b, c.Topic)
	b = binary.BigEndian.AppendUint32(b, uint32(c.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(records))
	return binary.BigEndian.AppendUint32(b, uint32(bytes))
}

func appendTopic(b []byte, topic string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	return append(b, topic...)
}

const (
	placedSize    = 4 + 8 + 1
	fetchedRecord = 4 + 8 + 8 + 4 + 4
)

func decodePlaced(b []byte, records int) ([]Placed, error) {
	d := decoder{rest: b}
	count := int64(d.u32())
	if d.failed || count != int64(records) || int64(len(d.rest)) != count*placedSize {
		return nil, fmt.Errorf("%w: %d bytes with %d placed records, expected %d", ErrMalformed, len(b), count, records)
	}
	placed := make([]Placed, count)
	for i := range placed {
		placed[i].Partition = int32(d.u32())
		placed[i].Offset = int64(d.u64())
		placed[i].Duplicate = d.take(1)[0] != 0
	}
	return placed, nil
}

// decodeFetched reads the answer to a consume; the records point into b.
func decodeFetched(b []byte) (*Fetched, error) {
	d := decoder{rest: b}
	f := &Fetched{NextOffset: int64(d.u64()), HighWatermark: int64(d.u64())}
	count := int64(d.u32())
	if d.failed || count*fetchedRecord > int64(len(d.rest)) {
		return nil, fmt.Errorf("%w: %d records in %d bytes", ErrMalformed, count, len(b))
	}
	f.Records = make([]Stored, count)
	for i := range f.Records {
		r := &f.Records[i]
		r.Partition = int32(d.u32())
		r.Offset = int64(d.u64())
		r.TimestampMs = int64(d.u64())
		if n := int32(d.u32()); n != -1 {
			r.Key = d.take(int(n))
		}
		r.Value = d.take(int(d.u32()))
	}
	if d.failed || len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: records that do not fill their frame", ErrMalformed)
	}
	return f, nil
}

// A decoder reads fields; once one is missing it has failed, and what it reads is
// zero.
type decoder struct {
	rest   []byte
	failed bool
}

var zeros [8]byte

// take takes n bytes, which are never nil unless it has failed and n is large.
func (d *decoder) take(n int) []byte {
	if d.failed || n < 0 || n > len(d.rest) {
		d.failed = true
		return zeros[:max(0, min(n, len(zeros)))]
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }
