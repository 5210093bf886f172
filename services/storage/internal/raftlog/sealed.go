package raftlog

import (
	"fmt"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
)

// Sealed is a sealed segment that is read as it was when it was opened, whatever
// becomes of it: dropped, or written anew. It has a file handle of its own.
type Sealed struct {
	log     *Log
	file    vfs.File
	segment journal.Segment
}

// OpenSealed opens a segment that Stats told of. ErrReplaced when it is not there
// any more. The caller closes it.
func (l *Log) OpenSealed(base int64, generation uint32) (*Sealed, error) {
	f, s, err := l.openSealed(base, generation)
	if err != nil {
		return nil, err
	}
	return &Sealed{log: l, file: f, segment: s}, nil
}

// Scan gives each batch in order with its position, whole and verified, and valid
// until visit returns.
func (s *Sealed) Scan(visit func(position int64, batch []byte) error) error {
	return s.log.scanBatches(s.file, s.segment, visit)
}

// ReadAt reads bytes of the segment, unverified.
func (s *Sealed) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.file.ReadAt(p, off)
	if err != nil {
		return n, fmt.Errorf("read segment %d: %w", s.segment.Base, err)
	}
	return n, nil
}

// Close gives the handle back. Nothing was written.
func (s *Sealed) Close() error { return s.file.Close() }

// BytesFrom is how many bytes of a segment that Stats told of lie at or above an
// offset.
func (l *Log) BytesFrom(base, offset int64) (int64, error) {
	l.files.RLock()
	defer l.files.RUnlock()
	s, _, err := l.segmentOf(base)
	if err != nil {
		return 0, err
	}
	at, err := l.seekOffset(s, offset)
	if err != nil {
		return 0, l.readFailed(l.gone(base, err))
	}
	return s.Size - at.Position, nil
}
