package producer

import (
	"encoding/binary"
	"fmt"
)

// Expected is what a verdict rests on: the producer's last sequence, if it is
// known.
type Expected struct {
	Known bool
	Last  int64
}

func (s *state) expected() Expected {
	if s == nil {
		return Expected{}
	}
	return Expected{Known: true, Last: s.last().last}
}

// Guard binds a verdict to what it was given for. Callers carry it from Prepare
// to Append and do not look into it:
//
//	version     u8       1
//	topic       [16]u8
//	partition   u32
//	term        u64      of the leader that gave it
//	producer    u64
//	known       u8       0 or 1
//	last        u64      0 unless known
//
// Numbers are big-endian. It outlives no leadership, so the format may change
// with the version.
type Guard struct {
	Topic     [16]byte
	Partition int32
	Term      uint64
	Producer  int64
	Expected  Expected
}

const (
	guardVersion = 1
	guardSize    = 1 + 16 + 4 + 8 + 8 + 1 + 8
)

// Encode returns the guard's bytes.
func (g Guard) Encode() []byte {
	b := make([]byte, 0, guardSize)
	b = append(b, guardVersion)
	b = append(b, g.Topic[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(g.Partition))
	b = binary.BigEndian.AppendUint64(b, g.Term)
	b = binary.BigEndian.AppendUint64(b, uint64(g.Producer))
	if !g.Expected.Known {
		return append(b, make([]byte, 9)...)
	}
	b = append(b, 1)
	return binary.BigEndian.AppendUint64(b, uint64(g.Expected.Last))
}

// DecodeGuard reads a guard, or returns ErrBadGuard. Only what Encode returns is
// one.
func DecodeGuard(b []byte) (Guard, error) {
	if len(b) != guardSize || b[0] != guardVersion {
		return Guard{}, fmt.Errorf("%w: %d bytes", ErrBadGuard, len(b))
	}
	g := Guard{
		Topic:     [16]byte(b[1:17]),
		Partition: int32(binary.BigEndian.Uint32(b[17:])),
		Term:      binary.BigEndian.Uint64(b[21:]),
		Producer:  int64(binary.BigEndian.Uint64(b[29:])),
		Expected:  Expected{Known: b[37] == 1, Last: int64(binary.BigEndian.Uint64(b[38:]))},
	}
	if b[37] > 1 || g.Expected.Last < 0 || !g.Expected.Known && g.Expected.Last != 0 {
		return Guard{}, fmt.Errorf("%w: it expects the impossible", ErrBadGuard)
	}
	return g, nil
}
