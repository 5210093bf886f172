package recordbatch

import (
	"encoding/binary"
	"fmt"
)

// HeaderSize is the size of a batch without records. On disk and on the wire;
// it must not change.
const HeaderSize = 61

// Magic is the format version. On disk and on the wire; it must not change.
const Magic = 2

// Positions of the fields. On disk and on the wire; they must not change.
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57
)

// lengthOverhead is what the length field does not count: itself and what
// stands before it.
const lengthOverhead = atLeaderEpoch

// Header is the fixed part of a batch.
type Header struct {
	BaseOffset      int64
	Length          int32 // Size() - 12
	LeaderEpoch     int32 // -1 until a leader stamps it
	Magic           int8
	CRC             uint32
	Attributes      Attributes
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64 // -1: none
	ProducerEpoch   int16 // -1: none
	BaseSequence    int32 // -1: none
	Count           int32 // records; Count <= LastOffsetDelta+1, less after compaction
}

// ParseHeader reads the header at the start of b, which may end anywhere after
// it. It checks the shape alone: the format version, and that no count or size
// is negative. The records may be missing and the CRC is not looked at.
func ParseHeader(b []byte) (h Header, err error) {
	if len(b) > atMagic && b[atMagic] != Magic {
		if b[atMagic] < Magic {
			return Header{}, fmt.Errorf("%w: got %d", ErrOldFormat, b[atMagic])
		}
		return Header{}, fmt.Errorf("%w: got %d", ErrMagic, int8(b[atMagic]))
	}
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: expected a header of %d bytes, got %d", ErrTruncated, HeaderSize, len(b))
	}
	h.read(b)
	switch {
	case h.Length < HeaderSize-lengthOverhead:
		return Header{}, fmt.Errorf("%w: length %d, expected at least %d", ErrMalformed, h.Length, HeaderSize-lengthOverhead)
	case h.BaseOffset < 0:
		return Header{}, fmt.Errorf("%w: negative base offset %d", ErrMalformed, h.BaseOffset)
	case h.LastOffsetDelta < 0:
		return Header{}, fmt.Errorf("%w: negative last offset delta %d", ErrMalformed, h.LastOffsetDelta)
	case h.BaseOffset > maxOffset-int64(h.LastOffsetDelta):
		return Header{}, fmt.Errorf("%w: base offset %d and last offset delta %d pass the largest offset", ErrMalformed, h.BaseOffset, h.LastOffsetDelta)
	case h.Count < 0:
		return Header{}, fmt.Errorf("%w: negative record count %d", ErrMalformed, h.Count)
	}
	return h, nil
}

// maxOffset leaves room for the offset after it.
const maxOffset = 1<<63 - 2

// read sets all fields, in place: a copy would cost more than reading them does.
func (h *Header) read(b []byte) {
	_ = b[HeaderSize-1]
	h.BaseOffset = int64(binary.BigEndian.Uint64(b[atBaseOffset:]))
	h.Length = int32(binary.BigEndian.Uint32(b[atLength:]))
	h.LeaderEpoch = int32(binary.BigEndian.Uint32(b[atLeaderEpoch:]))
	h.Magic = int8(b[atMagic])
	h.CRC = binary.BigEndian.Uint32(b[atCRC:])
	h.Attributes = Attributes(binary.BigEndian.Uint16(b[atAttributes:]))
	h.LastOffsetDelta = int32(binary.BigEndian.Uint32(b[atLastOffsetDelta:]))
	h.BaseTimestamp = int64(binary.BigEndian.Uint64(b[atBaseTimestamp:]))
	h.MaxTimestamp = int64(binary.BigEndian.Uint64(b[atMaxTimestamp:]))
	h.ProducerID = int64(binary.BigEndian.Uint64(b[atProducerID:]))
	h.ProducerEpoch = int16(binary.BigEndian.Uint16(b[atProducerEpoch:]))
	h.BaseSequence = int32(binary.BigEndian.Uint32(b[atBaseSequence:]))
	h.Count = int32(binary.BigEndian.Uint32(b[atCount:]))
}

// PutHeader writes h over the first HeaderSize bytes of b, all fields as they
// are: after a change below the CRC, SealCRC has to follow.
func PutHeader(b []byte, h Header) {
	_ = b[HeaderSize-1]
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(b[atLength:], uint32(h.Length))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(h.LeaderEpoch))
	b[atMagic] = byte(h.Magic)
	binary.BigEndian.PutUint32(b[atCRC:], h.CRC)
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(h.Attributes))
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(h.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[atBaseTimestamp:], uint64(h.BaseTimestamp))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(h.MaxTimestamp))
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(h.ProducerID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(h.ProducerEpoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(h.BaseSequence))
	binary.BigEndian.PutUint32(b[atCount:], uint32(h.Count))
}

// Size is the size of the whole batch in bytes.
func (h Header) Size() int { return int(h.Length) + lengthOverhead }

// LastOffset is the offset of the last record that the batch has or had.
func (h Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset is the offset after the batch.
func (h Header) NextOffset() int64 { return h.LastOffset() + 1 }

// Cut cuts the batch off b that begins with this header.
func (h *Header) Cut(b []byte) (batch, rest []byte, err error) {
	size := h.Size()
	if size > len(b) {
		return nil, b, fmt.Errorf("%w: expected %d bytes, got %d", ErrTruncated, size, len(b))
	}
	return b[:size:size], b[size:], nil
}
