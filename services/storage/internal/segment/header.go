package segment

import (
	"hash/crc32"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// HeaderSize is the size of a batch's header.
const HeaderSize = recordbatch.HeaderSize

// On disk and on the wire; see recordbatch. checksumFrom is where the bytes under
// a batch's checksum begin: length, base offset, epoch and magic are before it.
const (
	magicAt      = 16
	checksumFrom = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a batch in a segment.
type Batch struct {
	At
	Header recordbatch.Header
	// Raw is the header as it stands in the file. It is valid for as long as
	// the call that gave it.
	Raw []byte
}

// Size is that of the whole batch.
func (b Batch) Size() int64 { return int64(b.Header.Size()) }

// End is the place after the batch, if no entry that is none follows.
func (b Batch) End() At {
	return At{Position: b.Position + b.Size(), Offset: b.Header.NextOffset(), Index: b.Index + 1}
}

// blank says that bytes are zeros, as those that were written ahead.
func blank(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
