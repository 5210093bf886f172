package recordbatch

import "errors"

// What can be wrong with a batch. Errors of this package match one of these and
// say more in their text.
var (
	// ErrTruncated is a batch that ends before it says it does.
	ErrTruncated = errors.New("truncated batch")
	// ErrOldFormat is a message of format 0 or 1, which Kafka 4 has given up.
	ErrOldFormat = errors.New("message format 0 or 1, expected 2")
	// ErrMagic is a format that is not known.
	ErrMagic = errors.New("unknown message format, expected 2")
	// ErrCRC is a batch whose bytes are not those that its CRC was made for.
	ErrCRC = errors.New("CRC does not match")
	// ErrMalformed is a batch or record that contradicts itself.
	ErrMalformed = errors.New("malformed batch")
	// ErrCodec is a compression codec that is not known.
	ErrCodec = errors.New("unknown compression codec")
	// ErrInflate is compressed records that exceed Limits.MaxInflate.
	ErrInflate = errors.New("records exceed the limit when decompressed")
)
