package recordbatch

import (
	"fmt"
	"math"
	"slices"
)

// Options say what batches a Builder builds. The zero value is uncompressed
// batches without a producer.
type Options struct {
	Codec Codec
	// Producer is who numbers the batch's records; nil for nobody.
	Producer *Producer
	// Transactional batches need a Producer.
	Transactional bool
	// Control batches are transaction markers.
	Control bool
	// SizeHint is roughly how many bytes a batch takes without compression.
	SizeHint int
}

// Producer is an idempotent producer's place in a partition.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32 // of the batch's first record
}

// RecordHeader is a header of a record to append.
type RecordHeader struct {
	Key   string
	Value []byte // nil: null
}

// Builder builds a batch record by record. It is not for use by several
// goroutines.
//
// Invariant: buf is nil, or HeaderSize bytes to be filled in and then count
// whole records.
type Builder struct {
	options       Options
	buf           []byte
	count         int32
	baseTimestamp int64
	maxTimestamp  int64
}

// NewBuilder returns a builder without records.
func NewBuilder(options Options) *Builder {
	return &Builder{options: options}
}

// SetProducer gives the batch under way, and those after it, another producer.
func (b *Builder) SetProducer(p *Producer) { b.options.Producer = p }

// Append adds a record with the next offset. A nil key or value is null, an
// empty one is not.
func (b *Builder) Append(timestamp int64, key, value []byte, headers []RecordHeader) {
	if b.buf == nil {
		b.buf = make([]byte, HeaderSize, max(b.options.SizeHint, HeaderSize+256))
	}
	if b.count == 0 {
		b.baseTimestamp, b.maxTimestamp = timestamp, timestamp
	}
	b.maxTimestamp = max(b.maxTimestamp, timestamp)
	delta := timestamp - b.baseTimestamp
	size := bodySize(delta, b.count, key, value, headers)

	buf := appendVarint(slices.Grow(b.buf, size+5), int64(size))
	buf = append(buf, 0)
	buf = appendVarint(buf, delta)
	buf = appendVarint(buf, int64(b.count))
	buf = appendNullable(buf, key)
	buf = appendNullable(buf, value)
	buf = appendVarint(buf, int64(len(headers)))
	for i := range headers {
		buf = appendVarint(buf, int64(len(headers[i].Key)))
		buf = append(buf, headers[i].Key...)
		buf = appendNullable(buf, headers[i].Value)
	}
	b.buf = buf
	b.count++
}

// Count is how many records the batch has so far.
func (b *Builder) Count() int { return int(b.count) }

// Size is how many bytes the batch takes so far, without compression.
func (b *Builder) Size() int { return max(len(b.buf), HeaderSize) }

// SizeWith is what Size would be after such an Append.
func (b *Builder) SizeWith(timestamp int64, key, value []byte, headers []RecordHeader) int {
	var delta int64
	if b.count > 0 {
		delta = timestamp - b.baseTimestamp
	}
	size := bodySize(delta, b.count, key, value, headers)
	return b.Size() + varintSize(int64(size)) + size
}

// Finish returns the batch, which is the caller's, and leaves the builder
// without records. There must be at least one. Base offset is 0 and leader epoch
// -1, as a producer sends it.
func (b *Builder) Finish() ([]byte, error) {
	if b.count == 0 {
		return nil, fmt.Errorf("%w: no records", ErrMalformed)
	}
	h := Header{
		LeaderEpoch:     -1,
		Magic:           Magic,
		LastOffsetDelta: b.count - 1,
		BaseTimestamp:   b.baseTimestamp,
		MaxTimestamp:    b.maxTimestamp,
		ProducerID:      -1,
		ProducerEpoch:   -1,
		BaseSequence:    -1,
		Count:           b.count,
	}
	if p := b.options.Producer; p != nil {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = p.ID, p.Epoch, p.BaseSequence
	}
	if b.options.Transactional {
		h.Attributes |= Transactional
	}
	if b.options.Control {
		h.Attributes |= Control
	}
	batch, err := assemble(h, b.options.Codec, b.buf)
	if err != nil {
		return nil, err
	}
	if b.options.Codec == None {
		b.buf = nil
	} else {
		b.buf = b.buf[:HeaderSize]
	}
	b.count = 0
	return batch, nil
}

// Recode returns the batch with another codec, in new bytes. The header stays
// but for codec, length and CRC.
func Recode(batch []byte, codec Codec, limits Limits) ([]byte, error) {
	var r Reader
	if err := r.Reset(batch, limits); err != nil {
		return nil, err
	}
	return r.Recode(codec)
}

// Recode returns the reader's batch with another codec, in new bytes. The header
// stays but for codec, length and CRC.
func (r *Reader) Recode(codec Codec) ([]byte, error) {
	plain := make([]byte, HeaderSize, HeaderSize+len(r.records))
	return assemble(r.Header, codec, append(plain, r.records...))
}

// assemble makes a batch of a header and records that stand uncompressed after
// HeaderSize bytes of room. Without compression it is the same bytes.
func assemble(h Header, codec Codec, plain []byte) ([]byte, error) {
	batch := plain
	if codec != None {
		var err error
		batch = make([]byte, HeaderSize, HeaderSize+len(plain)/2)
		if batch, err = Compress(codec, batch, plain[HeaderSize:]); err != nil {
			return nil, err
		}
	}
	if len(batch) > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d bytes do not fit into one batch", ErrMalformed, len(batch))
	}
	h.Attributes = h.Attributes.WithCodec(codec)
	Seal(batch, h)
	return batch, nil
}

// bodySize is the size of a record without its length.
func bodySize(timestampDelta int64, offsetDelta int32, key, value []byte, headers []RecordHeader) int {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) +
		nullableSize(key) + nullableSize(value) + varintSize(int64(len(headers)))
	for i := range headers {
		size += varintSize(int64(len(headers[i].Key))) + len(headers[i].Key) + nullableSize(headers[i].Value)
	}
	return size
}

func nullableSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

func appendNullable(buf, b []byte) []byte {
	if b == nil {
		return append(buf, 1) // zigzag of -1
	}
	return append(appendVarint(buf, int64(len(b))), b...)
}
