package blobtest

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the checksum that Put takes.
func Checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

// Pattern is a source without end, of bytes that are the same wherever they are
// read from and take no memory. Different patterns differ.
type Pattern uint64

// ReadAt reads from the pattern.
func (p Pattern) ReadAt(b []byte, off int64) (int, error) {
	var word [8]byte
	for i := range b {
		at := off + int64(i)
		if i == 0 || at%8 == 0 {
			// Multiplying by an odd constant spreads neighbours apart.
			binary.LittleEndian.PutUint64(word[:], (uint64(at/8)+uint64(p)<<40+1)*0x9e3779b97f4a7c15)
		}
		b[i] = word[at%8]
	}
	return len(b), nil
}

// Checksum is the checksum of the first size bytes.
func (p Pattern) Checksum(size int64) uint32 {
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(p, 0, size)); err != nil {
		panic(err) // neither of the two fails
	}
	return sum.Sum32()
}

// Trap is a pattern that does something at once, when so many of its bytes have
// been read, counted over all reads; and fails with its error.
type Trap struct {
	Pattern
	After int64
	Do    func() error

	mu   sync.Mutex
	read int64
	done bool
}

// ReadAt reads from the pattern.
func (t *Trap) ReadAt(b []byte, off int64) (int, error) {
	t.mu.Lock()
	t.read += int64(len(b))
	now := t.read > t.After && !t.done
	t.done = t.done || now
	t.mu.Unlock()
	if now {
		if err := t.Do(); err != nil {
			return 0, err
		}
	}
	return t.Pattern.ReadAt(b, off)
}
