package recordbatch

import (
	"encoding/binary"
	"math/bits"
)

// uvarint reads the number that stands at a position of b, and returns the
// position after it: -1 when b ends too early or the number does not fit. Most
// numbers of a record are of one or two bytes and are read without another call.
func uvarint(b []byte, at int) (v uint64, after int) {
	if at < len(b) {
		first := b[at]
		if first < 0x80 {
			return uint64(first), at + 1
		}
		if at+1 < len(b) {
			if second := b[at+1]; second < 0x80 {
				return uint64(first&0x7f) | uint64(second)<<7, at + 2
			}
		}
	}
	return longUvarint(b, at)
}

func longUvarint(b []byte, at int) (uint64, int) {
	v, n := binary.Uvarint(b[at:])
	if n <= 0 {
		return 0, -1
	}
	return v, at + n
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
