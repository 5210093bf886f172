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

// All yields keys and values in their order; a nil value is null.
func (h Headers) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		b := h.raw
		for range h.count {
			var key, value []byte
			key, b, _ = cutBytes(b) // checked by cutHeaders
			value, b, _ = cutBytes(b)
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
	b = b[1:] // attributes
	v, n := uvarint(b)
	if n == 0 {
		return errField("timestamp delta")
	}
	r.TimestampDelta = unzigzag(v)
	b = b[n:]

	v, n = uvarint(b)
	if n == 0 || v > 1<<32-1 {
		return errField("offset delta")
	}
	r.OffsetDelta = int32(unzigzag(v))
	b = b[n:]

	var ok bool
	if r.Key, b, ok = cutBytes(b); !ok {
		return errField("key")
	}
	if r.Value, b, ok = cutBytes(b); !ok {
		return errField("value")
	}
	if len(b) == 1 && b[0] == 0 {
		r.Headers = Headers{}
		return nil
	}
	return r.decodeHeaders(b)
}

func (r *Record) decodeHeaders(b []byte) error {
	v, n := uvarint(b)
	if n == 0 {
		return errField("header count")
	}
	count := unzigzag(v)
	b = b[n:]
	if count < 0 || count > int64(len(b)/2) { // a header takes two bytes or more
		return fmt.Errorf("%w: %d headers in %d bytes", ErrMalformed, count, len(b))
	}
	r.Headers = Headers{count: int(count), raw: b}
	for range count {
		key, rest, ok := cutBytes(b)
		if !ok || key == nil {
			return errField("header key")
		}
		if _, b, ok = cutBytes(rest); !ok {
			return errField("header value")
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes after a record's last header", ErrMalformed, len(b))
	}
	return nil
}

// cutBytes cuts bytes with their length before them off b; nil is null, and
// empty bytes are not nil.
func cutBytes(b []byte) (field, rest []byte, ok bool) {
	v, n := uvarint(b)
	if n == 0 {
		return nil, nil, false
	}
	b = b[n:]
	if v&1 != 0 { // negative
		return nil, b, v == 1
	}
	v >>= 1
	if v > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:v:v], b[v:], true
}

func errField(name string) error {
	return fmt.Errorf("%w: a record's %s is no number or passes the record's end", ErrMalformed, name)
}
