package recordbatch

import (
	"fmt"
	"iter"
)

// minRecordSize is the smallest a record can be: seven numbers of a byte. A
// record count is believed only as far as the bytes can hold that many.
const minRecordSize = 7

// Record is one record of a batch. Its slices point into the batch, or into the
// buffer that the batch was decompressed to.
type Record struct {
	Offset    int64
	Timestamp int64  // milliseconds
	Key       []byte // nil: null
	Value     []byte // nil: null
	Headers   Headers

	// OffsetDelta and TimestampDelta are what stands in the record.
	OffsetDelta    int32
	TimestampDelta int64
}

// Headers are the headers of a record, checked and not decoded.
type Headers struct {
	count int
	raw   []byte
}

// Len is the number of headers.
func (h Headers) Len() int { return h.count }

// Size is the number of bytes that they take.
func (h Headers) Size() int { return len(h.raw) }

// All yields keys and values in their order; a nil value is null.
func (h Headers) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		at := 0
		for range h.count {
			var key, value []byte
			key, at = nullable(h.raw, at) // decodeHeaders has seen that they are sound
			value, at = nullable(h.raw, at)
			if !yield(key, value) {
				return
			}
		}
	}
}

// decode reads one record that takes all of b, but for its length.
func (r *Record) decode(b []byte) error {
	if len(b) < minRecordSize-1 {
		return fmt.Errorf("%w: a record of %d bytes, expected at least %d", ErrMalformed, len(b), minRecordSize-1)
	}
	const start = 1 // after the attributes
	v, mid := shortUvarint(b, start)
	if mid < 0 {
		if v, mid = uvarint(b, start); mid < 0 {
			return errField("timestamp delta")
		}
	}
	r.TimestampDelta = unzigzag(v)
	v, at := shortUvarint(b, mid)
	if at < 0 {
		if v, at = uvarint(b, mid); at < 0 || v > 1<<32-1 {
			return errField("offset delta")
		}
	}
	r.OffsetDelta = int32(unzigzag(v))
	if r.Key, at = nullable(b, at); at < 0 {
		return errField("key")
	}
	if r.Value, at = nullable(b, at); at < 0 {
		return errField("value")
	}
	if at == len(b)-1 && b[at] == 0 {
		r.Headers = Headers{}
		return nil
	}
	return r.decodeHeaders(b[at:])
}

func (r *Record) decodeHeaders(b []byte) error {
	v, at := uvarint(b, 0)
	if at < 0 {
		return errField("header count")
	}
	b = b[at:]
	count := unzigzag(v)
	if count < 0 || count > int64(len(b)/2) { // a header takes two bytes or more
		return fmt.Errorf("%w: %d headers in %d bytes", ErrMalformed, count, len(b))
	}
	r.Headers = Headers{count: int(count), raw: b}
	at = 0
	for range count {
		var key []byte
		if key, at = nullable(b, at); at < 0 || key == nil {
			return errField("header key")
		}
		if _, at = nullable(b, at); at < 0 {
			return errField("header value")
		}
	}
	if at < len(b) {
		return fmt.Errorf("%w: %d bytes after a record's last header", ErrMalformed, len(b)-at)
	}
	return nil
}

// nullable reads bytes with their length before them, and returns the position
// after them or -1. Nil is null; empty bytes are not nil.
func nullable(b []byte, at int) (field []byte, after int) {
	v, start := shortUvarint(b, at)
	if start < 0 {
		if v, start = uvarint(b, at); start < 0 {
			return nil, -1
		}
	}
	if v == 1 { // -1
		return nil, start
	}
	if v&1 != 0 || v>>1 > uint64(len(b)-start) {
		return nil, -1
	}
	end := start + int(v>>1)
	return b[start:end:end], end
}

func errField(name string) error {
	return fmt.Errorf("%w: a record's %s is no number or passes the record's end", ErrMalformed, name)
}
