package recordbatch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CheckCRC reads all of a batch that ParseHeader accepts and whose bytes are
// exactly these, and compares its CRC.
func CheckCRC(batch []byte) error {
	got := crc32.Checksum(batch[atAttributes:], castagnoli)
	if want := binary.BigEndian.Uint32(batch[atCRC:]); got != want {
		return fmt.Errorf("%w: the batch says %08x, its bytes have %08x", ErrCRC, want, got)
	}
	return nil
}

// SealCRC computes the CRC of a batch and writes it into the header. It must
// follow every change but Stamp's.
func SealCRC(batch []byte) {
	binary.BigEndian.PutUint32(batch[atCRC:], crc32.Checksum(batch[atAttributes:], castagnoli))
}

// Seal writes h over the header of a batch whose records are in place: all
// fields as they are, but for length and CRC, which it makes fit. It returns what
// it wrote.
func Seal(batch []byte, h Header) Header {
	h.Length = int32(len(batch) - lengthOverhead)
	PutHeader(batch, h)
	SealCRC(batch)
	h.CRC = binary.BigEndian.Uint32(batch[atCRC:])
	return h
}

// Stamp writes base offset and leader epoch into the header of a batch, in
// place. Neither is under the CRC.
func Stamp(batch []byte, base int64, epoch int32) {
	binary.BigEndian.PutUint64(batch[atBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(batch[atLeaderEpoch:], uint32(epoch))
}

// Next cuts the first batch off b. The batch has the size that its header says;
// only the header's shape is checked. At the end of b, which is no error, batch
// is nil.
func Next(b []byte) (batch, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, nil
	}
	h, err := ParseHeader(b)
	if err != nil {
		return nil, b, err
	}
	return h.Cut(b)
}
