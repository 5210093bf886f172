package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// On disk; must not change.
const (
	magic      = "SluiceJn"
	version    = 1
	noteAt     = 512
	framesAt   = 1024
	headSize   = 8 + 4 + 8 + 4
	noteSize   = 4*8 + 4
	frameHead  = 4 + 4
	frameAlign = 8
)

var (
	// ErrDamaged marks a journal of which synced bytes are wrong or missing.
	ErrDamaged = errors.New("journal damaged")
	// ErrVersion marks a journal of a newer format.
	ErrVersion = errors.New("journal written by a newer version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// salt seeds the checksums of one file.
type salt uint64

func (s salt) crc(b []byte) uint32 {
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(s))
	return crc32.Update(crc32.Checksum(seed[:], castagnoli), castagnoli, b)
}

// Note is what the head of the journal remembers between syncs. It is written
// after what it tells of was synced, and not synced itself: exact after a kill,
// perhaps old after a power cut, never ahead.
type Note struct {
	// Base of the active segment and how many bytes of it are synced.
	Base   int64
	Synced int64
	// Commit is the largest index known to be committed.
	Commit uint64
	// end is where the synced frames end.
	end int64
}

func (s salt) appendNote(b []byte, n Note) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(n.Base))
	b = binary.LittleEndian.AppendUint64(b, uint64(n.Synced))
	b = binary.LittleEndian.AppendUint64(b, n.Commit)
	b = binary.LittleEndian.AppendUint64(b, uint64(n.end))
	return binary.LittleEndian.AppendUint32(b, s.crc(b[from:]))
}

// parseNote returns a zero note for one that is torn: nothing is known then.
func (s salt) parseNote(b []byte) Note {
	if len(b) < noteSize || s.crc(b[:noteSize-4]) != binary.LittleEndian.Uint32(b[noteSize-4:]) {
		return Note{}
	}
	return Note{
		Base:   int64(binary.LittleEndian.Uint64(b)),
		Synced: int64(binary.LittleEndian.Uint64(b[8:])),
		Commit: binary.LittleEndian.Uint64(b[16:]),
		end:    int64(binary.LittleEndian.Uint64(b[24:])),
	}
}

// appendHead appends the first framesAt bytes of a file.
func appendHead(b []byte, s salt, n Note) []byte {
	from := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, uint64(s))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
	b = append(b, make([]byte, from+noteAt-len(b))...)
	b = s.appendNote(b, n)
	return append(b, make([]byte, from+framesAt-len(b))...)
}

func parseHead(b []byte) (salt, error) {
	if len(b) < framesAt {
		return 0, fmt.Errorf("%w: %d bytes are no head", ErrDamaged, len(b))
	}
	if string(b[:8]) != magic {
		return 0, fmt.Errorf("%w: bad magic", ErrDamaged)
	}
	if crc32.Checksum(b[:headSize-4], castagnoli) != binary.LittleEndian.Uint32(b[headSize-4:]) {
		return 0, fmt.Errorf("%w: bad checksum of the head", ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return 0, fmt.Errorf("%w: %d, known is %d", ErrVersion, v, version)
	}
	return salt(binary.LittleEndian.Uint64(b[12:])), nil
}

// appendFrame appends records as one frame. len(b) must be a multiple of
// frameAlign.
func (s salt) appendFrame(b []byte, records []*persistv1.JournalRecord) ([]byte, error) {
	from := len(b)
	b = append(b, make([]byte, frameHead)...)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, &persistv1.JournalFrame{Records: records})
	if err != nil {
		return nil, fmt.Errorf("encode journal records: %w", err)
	}
	binary.LittleEndian.PutUint32(b[from+4:], uint32(len(b)-from-frameHead))
	binary.LittleEndian.PutUint32(b[from:], s.crc(b[from+4:]))
	return append(b, make([]byte, -len(b)&(frameAlign-1))...), nil
}

// frame returns the payload of the frame at the beginning of b and the size of
// the frame with its padding, which may not have made it to the disk; or false.
func (s salt) frame(b []byte) (payload []byte, size int, ok bool) {
	if len(b) < frameHead {
		return nil, 0, false
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n == 0 || uint64(n) > uint64(len(b)-frameHead) {
		return nil, 0, false
	}
	end := frameHead + int(n)
	if s.crc(b[4:end]) != binary.LittleEndian.Uint32(b) {
		return nil, 0, false
	}
	return b[frameHead:end], end + -end&(frameAlign-1), true
}
