package recordbatch

import (
	"encoding/binary"
	"math/bits"
)

// shortUvarint reads the number of one or two bytes that stands at a position of
// b, and returns the position after it. It is apart from uvarint so that the
// compiler inlines it, which halves the time of a walk over a batch. It returns
// -1 for longer numbers and, since that is never common, at b's last byte.
func shortUvarint(b []byte, at int) (v uint64, after int) {
	if at >= len(b)-1 {
		return 0, -1
	}
	first, second := uint64(b[at]), uint64(b[at+1])
	if first < 0x80 {
		return first, at + 1
	}
	if second < 0x80 {
		return first&0x7f | second<<7, at + 2
	}
	return 0, -1
}

// uvarint reads the number of any length that stands at a position of b, and
// returns the position after it: -1 when b ends too early or the number does not
// fit.
func uvarint(b []byte, at int) (v uint64, after int) {
	if at > len(b) {
		return 0, -1
	}
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
