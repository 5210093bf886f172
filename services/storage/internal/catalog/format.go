package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// The file's name and layout are on disk and must not change.
const (
	fileName   = "catalog"
	tempSuffix = ".new"
	magic      = "SLUICECT"
	version    = 2
	noteAt     = 512
	framesAt   = 1024
	noteSize   = 8 + 4
	frameHead  = 4 + 4
	maxFrame   = 64 << 20

	// Format 1 has no note: frames follow the head.
	unnoted         = 1
	unnotedFramesAt = len(magic) + 4
)

// ErrDamaged marks a catalog of which synced bytes are wrong or missing.
var ErrDamaged = errors.New("catalog is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parsed is what a file's content says.
type parsed struct {
	records []*persistv1.CatalogRecord
	// end is where the last whole frame ends; what follows is torn.
	end     int64
	version uint32
}

// parse reads a catalog's content.
func parse(content []byte) (*parsed, error) {
	if len(content) < unnotedFramesAt || string(content[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: no head", ErrDamaged)
	}
	p := &parsed{version: binary.LittleEndian.Uint32(content[len(magic):])}
	at, synced := unnotedFramesAt, uint64(0)
	switch {
	case p.version == unnoted:
	case p.version != version:
		return nil, fmt.Errorf("catalog has format %d, this version reads %d and %d", p.version, unnoted, version)
	case len(content) < framesAt:
		return nil, fmt.Errorf("%w: %d bytes are no head", ErrDamaged, len(content))
	default:
		at, synced = framesAt, parseNote(content[noteAt:framesAt])
	}
	if synced > uint64(len(content)) {
		return nil, fmt.Errorf("%w: synced up to byte %d, has %d", ErrDamaged, synced, len(content))
	}
	for at < len(content) {
		framed, size, err := parseFrame(content[at:])
		if err != nil {
			if uint64(at) < synced || goodAfter(content[at:]) {
				return nil, fmt.Errorf("%w: frame at byte %d: %w", ErrDamaged, at, err)
			}
			break
		}
		p.records = append(p.records, framed...)
		at += size
	}
	p.end = int64(at)
	return p, nil
}

// appendHead appends the first framesAt bytes of a file whose frames are synced up
// to a position.
func appendHead(to []byte, synced int64) []byte {
	to = append(to, magic...)
	to = binary.LittleEndian.AppendUint32(to, version)
	to = append(to, make([]byte, noteAt-len(to))...)
	to = appendNote(to, synced)
	return append(to, make([]byte, framesAt-len(to))...)
}

func appendNote(to []byte, synced int64) []byte {
	from := len(to)
	to = binary.LittleEndian.AppendUint64(to, uint64(synced))
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[from:], castagnoli))
}

// parseNote returns how far frames are known to be synced: nowhere, when the note
// is torn.
func parseNote(b []byte) (synced uint64) {
	if crc32.Checksum(b[:noteSize-4], castagnoli) != binary.LittleEndian.Uint32(b[noteSize-4:]) {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func appendFrame(to []byte, records ...*persistv1.CatalogRecord) ([]byte, error) {
	var body []byte
	for _, record := range records {
		message, err := proto.Marshal(record)
		if err != nil {
			return nil, fmt.Errorf("encode catalog record: %w", err)
		}
		body = protowire.AppendBytes(body, message)
	}
	if len(body) > maxFrame {
		return nil, fmt.Errorf("catalog records of %d bytes are over the limit of %d at once", len(body), maxFrame)
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(len(body)))
	to = binary.LittleEndian.AppendUint32(to, crc32.Checksum(body, castagnoli))
	return append(to, body...), nil
}

func parseFrame(b []byte) ([]*persistv1.CatalogRecord, int, error) {
	if len(b) < frameHead {
		return nil, 0, errors.New("frame is cut")
	}
	length := binary.LittleEndian.Uint32(b)
	if length == 0 || length > maxFrame || int(length) > len(b)-frameHead {
		return nil, 0, fmt.Errorf("length %d does not fit", length)
	}
	body := b[frameHead : frameHead+int(length)]
	// First what is cheap: goodAfter asks this at every byte.
	if _, n := protowire.ConsumeBytes(body); n < 0 {
		return nil, 0, protowire.ParseError(n)
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, 0, errors.New("CRC does not match")
	}
	var records []*persistv1.CatalogRecord
	for len(body) > 0 {
		message, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return nil, 0, protowire.ParseError(n)
		}
		record := &persistv1.CatalogRecord{}
		if err := proto.Unmarshal(message, record); err != nil {
			return nil, 0, err
		}
		if record.GetKind() == nil {
			return nil, 0, errors.New("record of an unknown kind")
		}
		records = append(records, record)
		body = body[n:]
	}
	return records, frameHead + int(length), nil
}

// goodAfter tells whether bytes that begin with a bad frame hold a good one after
// it: then the bad one was synced before that one was begun.
func goodAfter(b []byte) bool {
	for at := 1; at+frameHead < len(b); at++ {
		if _, _, err := parseFrame(b[at:]); err == nil {
			return true
		}
	}
	return false
}
