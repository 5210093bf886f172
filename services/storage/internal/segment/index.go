package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sort"
)

// On disk; must not change.
const (
	indexMagic   = "SluiceIx"
	indexVersion = 1
	indexHead    = 32
	entrySize    = 32
)

// ErrBadIndex marks an index file that must be written anew.
var ErrBadIndex = errors.New("bad index")

// IndexEntry says where a batch begins and what the batches before it add up to.
type IndexEntry struct {
	At
	// MaxTimestamp is the largest of all batches before the place, -1 if there
	// is none, and MaxTimestampOffset the base offset of the first that has it.
	MaxTimestamp       int64
	MaxTimestampOffset int64
}

// IndexOf names the origin that entries are relative to.
type IndexOf struct {
	Base       int64
	FirstIndex uint64
	Generation uint32
}

// Fits says whether a place can be written relative to the origin, and whether
// Kafka, which has signed 32-bit numbers there, could as well.
func (o IndexOf) Fits(at At) bool {
	return at.Offset-o.Base <= math.MaxInt32 && at.Position <= math.MaxInt32 && at.Index-o.FirstIndex <= math.MaxInt32
}

func (o IndexOf) crc(b []byte) uint32 {
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(o.Base))
	return crc32.Update(crc32.Checksum(seed[:], castagnoli), castagnoli, b)
}

func (o IndexOf) appendHead(b []byte) []byte {
	from := len(b)
	b = append(b, indexMagic...)
	b = binary.LittleEndian.AppendUint32(b, indexVersion)
	b = binary.LittleEndian.AppendUint32(b, o.Generation)
	b = binary.LittleEndian.AppendUint64(b, uint64(o.Base))
	b = binary.LittleEndian.AppendUint32(b, o.crc(b[from:]))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// appendEntry appends an entry that Fits.
func (o IndexOf) appendEntry(b []byte, e IndexEntry) []byte {
	from := len(b)
	var timestampOffset uint32
	if e.MaxTimestamp >= 0 {
		timestampOffset = uint32(e.MaxTimestampOffset - o.Base)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Offset-o.Base))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Position))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Index-o.FirstIndex))
	b = binary.LittleEndian.AppendUint32(b, timestampOffset)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.MaxTimestamp))
	b = binary.LittleEndian.AppendUint32(b, o.crc(b[from:]))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// AppendIndex appends the bytes of entries; head puts the file's head before
// them.
func (o IndexOf) AppendIndex(b []byte, head bool, entries []IndexEntry) []byte {
	if head {
		b = o.appendHead(b)
	}
	for _, e := range entries {
		b = o.appendEntry(b, e)
	}
	return b
}

func (o IndexOf) parseEntry(b []byte) (IndexEntry, error) {
	if o.crc(b[:24]) != binary.LittleEndian.Uint32(b[24:]) {
		return IndexEntry{}, ErrBadIndex
	}
	e := IndexEntry{
		At: At{
			Offset:   o.Base + int64(binary.LittleEndian.Uint32(b)),
			Position: int64(binary.LittleEndian.Uint32(b[4:])),
			Index:    o.FirstIndex + uint64(binary.LittleEndian.Uint32(b[8:])),
		},
		MaxTimestamp:       int64(binary.LittleEndian.Uint64(b[16:])),
		MaxTimestampOffset: -1,
	}
	if e.MaxTimestamp >= 0 {
		e.MaxTimestampOffset = o.Base + int64(binary.LittleEndian.Uint32(b[12:]))
	}
	return e, nil
}

// IndexSize is the size of a file with n entries.
func IndexSize(n int) int64 { return indexHead + int64(n)*entrySize }

// IndexLen is the number of whole entries in a file of a size.
func IndexLen(size int64) int { return int(max(0, size-indexHead) / entrySize) }

// IndexReader looks entries up in an index file of n entries.
type IndexReader struct {
	Of IndexOf
	R  io.ReaderAt
	N  int
}

// CheckHead says whether the file is an index of this segment.
func (x IndexReader) CheckHead() error {
	var b [indexHead]byte
	if n, err := x.R.ReadAt(b[:], 0); n < len(b) {
		return fmt.Errorf("%w: no head: %w", ErrBadIndex, err)
	}
	if string(b[:]) != string(x.Of.appendHead(nil)) {
		return fmt.Errorf("%w: not that of segment %d, generation %d, in version %d", ErrBadIndex, x.Of.Base, x.Of.Generation, indexVersion)
	}
	return nil
}

// Entry reads the i-th entry.
func (x IndexReader) Entry(i int) (IndexEntry, error) {
	var b [entrySize]byte
	if n, err := x.R.ReadAt(b[:], IndexSize(i)); n < len(b) {
		return IndexEntry{}, fmt.Errorf("%w: entry %d: %w", ErrBadIndex, i, err)
	}
	e, err := x.Of.parseEntry(b[:])
	if err != nil {
		return IndexEntry{}, fmt.Errorf("%w: entry %d", err, i)
	}
	return e, nil
}

// Last finds the last entry that is before some place; the predicate must be
// true up to one entry and false from there on. Its position i is -1 if there is
// none.
func (x IndexReader) Last(before func(IndexEntry) bool) (e IndexEntry, i int, err error) {
	n := sort.Search(x.N, func(i int) bool {
		if err != nil {
			return true
		}
		var at IndexEntry
		at, err = x.Entry(i)
		return err == nil && !before(at)
	})
	if err != nil || n == 0 {
		return IndexEntry{}, -1, err
	}
	e, err = x.Entry(n - 1)
	return e, n - 1, err
}

// IndexBuilder decides which batches get an entry.
type IndexBuilder struct {
	Of       IndexOf
	Interval int64

	lastAt             int64 // position of the last entry
	maxTimestamp       int64
	maxTimestampOffset int64
}

// NewIndexBuilder begins at a place after which there are no entries yet, where
// the largest timestamps are known; last is the position of the entry before.
func NewIndexBuilder(of IndexOf, interval, last, maxTimestamp, maxTimestampOffset int64) IndexBuilder {
	return IndexBuilder{Of: of, Interval: interval, lastAt: last, maxTimestamp: maxTimestamp, maxTimestampOffset: maxTimestampOffset}
}

// Add tells of the next batch. It returns the entry that belongs before it, if
// one is due.
func (b *IndexBuilder) Add(next Batch) (e IndexEntry, due bool) {
	if next.Position-b.lastAt >= b.Interval && next.Position > 0 && b.Of.Fits(next.At) {
		e = IndexEntry{At: next.At, MaxTimestamp: b.maxTimestamp, MaxTimestampOffset: b.maxTimestampOffset}
		due = true
		b.lastAt = next.Position
	}
	if ts := next.Header.MaxTimestamp; ts > b.maxTimestamp {
		b.maxTimestamp, b.maxTimestampOffset = ts, next.Offset
	}
	return e, due
}

// Max is the largest timestamp of all batches so far, -1 if none, and the base
// offset of the first batch that has it.
func (b *IndexBuilder) Max() (timestamp, offset int64) { return b.maxTimestamp, b.maxTimestampOffset }
