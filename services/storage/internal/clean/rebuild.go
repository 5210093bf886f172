package clean

import (
	"encoding/binary"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// each goes over the records of a batch and puts those that stay into c.kept,
// with their timestamps told from k.horizon if there is one, else from the
// batch's base. It adds to k, and says whether one that stays is a tombstone.
//
// But for the timestamp a record stays as it is, byte for byte, whatever a later
// version may have put into it.
func (c *Cleaner) each(batch []byte, stays func(*recordbatch.Record) bool, k *kept) (tombstones bool, err error) {
	if err := c.reader.Reset(batch, c.limits()); err != nil {
		return false, err
	}
	h, raw := c.reader.Header, c.reader.Raw()
	base := h.BaseTimestamp
	if k.horizon != 0 {
		base = k.horizon
	}
	c.kept = c.kept[:0]
	for c.reader.Next() {
		// The reader has seen that the lengths are sound.
		size, n := binary.Varint(raw)
		record := raw[n : n+int(size)]
		whole := raw[:n+int(size)]
		raw = raw[n+int(size):]
		r := &c.reader.Record
		if !stays(r) {
			continue
		}
		tombstones = tombstones || tombstone(r)
		k.count++
		k.maxTimestamp = max(k.maxTimestamp, r.Timestamp)
		if base == h.BaseTimestamp {
			c.kept = append(c.kept, whole...)
			continue
		}
		c.kept = appendRecord(c.kept, record, h.BaseTimestamp+r.TimestampDelta-base)
	}
	return tombstones, c.reader.Err()
}

// appendRecord appends a record with another timestamp delta. What is not a
// number of its own is a varint, zigzag, as binary has them.
func appendRecord(to, record []byte, delta int64) []byte {
	const attributes = 1
	_, n := binary.Varint(record[attributes:])
	rest := record[attributes+n:]
	var number [binary.MaxVarintLen64]byte
	m := binary.PutVarint(number[:], delta)
	to = binary.AppendVarint(to, int64(attributes+m+len(rest)))
	to = append(to, record[:attributes]...)
	to = append(to, number[:m]...)
	return append(to, rest...)
}

// rebuild makes a batch of the records in c.kept.
func (c *Cleaner) rebuild(h recordbatch.Header, k kept) ([]byte, error) {
	h.Count = k.count
	if !h.Attributes.LogAppendTime() {
		h.MaxTimestamp = k.maxTimestamp
	}
	if k.horizon != 0 {
		h.Attributes |= recordbatch.HorizonSet
		h.BaseTimestamp = k.horizon
	}
	out := make([]byte, recordbatch.HeaderSize, recordbatch.HeaderSize+len(c.kept))
	if codec := h.Attributes.Codec(); codec == recordbatch.None {
		out = append(out, c.kept...)
	} else {
		var err error
		if out, err = recordbatch.Compress(codec, out, c.kept); err != nil {
			return nil, err
		}
	}
	recordbatch.Seal(out, h)
	return out, nil
}

// Empty is what is left of a batch without records: its offsets, producer and
// sequence. It has no timestamp, so that nobody who looks for one finds it.
func Empty(h recordbatch.Header) []byte {
	h.Count = 0
	h.BaseTimestamp, h.MaxTimestamp = -1, -1
	h.Attributes = h.Attributes.WithCodec(recordbatch.None) &^ recordbatch.HorizonSet
	out := make([]byte, recordbatch.HeaderSize)
	recordbatch.Seal(out, h)
	return out
}
