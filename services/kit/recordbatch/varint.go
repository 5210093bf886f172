package recordbatch

import (
	"encoding/binary"
	"math/bits"
)

// uvarint reads a number of one byte, which most are, without a call, and
// longer ones through longUvarint. The count is 0 when b ends too early or the
// number does not fit.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return longUvarint(b)
}

func longUvarint(b []byte) (uint64, int) {
	if len(b) > 1 && b[1] < 0x80 {
		return uint64(b[0]&0x7f) | uint64(b[1])<<7, 2
	}
	v, n := binary.Uvarint(b)
	return v, max(n, 0)
}

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func appendVarint(b []byte, v int64) []byte {
	u := zigzag(v)
	if u < 0x80 {
		return append(b, byte(u))
	}
	return binary.AppendUvarint(b, u)
}

// varintSize is how many bytes appendVarint writes.
func varintSize(v int64) int { return (bits.Len64(zigzag(v)|1) + 6) / 7 }
