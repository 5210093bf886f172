package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// Chunk is a run of whole batches.
type Chunk struct {
	Bytes []byte
	// Next is the offset at which to go on; that of the call if there was
	// nothing to read.
	Next int64
}

// Read returns whole batches, from the one that holds offset on: those whose
// base is below bound and that lie in one segment, as many as fit into maxBytes,
// but the first even if it does not. bound is the caller's high
// watermark; nothing at or above it may be cut while Read runs.
//
// No byte is served before its checksum has been verified once since the log was
// opened. A batch that fails is ErrDamaged, and so is all that comes after it in
// its segment.
func (l *Log) Read(offset, bound int64, maxBytes int) (Chunk, error) {
	if l.closed.Load() {
		return Chunk{}, ErrClosed
	}
	l.files.RLock()
	defer l.files.RUnlock()
	for at := offset; ; {
		s, ok, err := l.segmentOf(at)
		if err != nil {
			return Chunk{}, err
		}
		if !ok || at >= bound {
			return Chunk{Next: max(offset, min(at, bound))}, nil
		}
		c, err := l.readIn(s, at, bound, maxBytes)
		if err != nil {
			return Chunk{}, l.readFailed(l.gone(at, err))
		}
		if len(c.Bytes) > 0 || c.Next < s.NextOffset {
			return c, nil
		}
		at = s.NextOffset
	}
}

// segmentOf finds the segment with an offset; ok is false at the end of the log.
func (l *Log) segmentOf(offset int64) (s journal.Segment, ok bool, err error) {
	l.view.RLock()
	defer l.view.RUnlock()
	t := &l.view.table
	next := t.Active().NextOffset
	if offset < t.Segments[0].Base || offset > next {
		return s, false, fmt.Errorf("%w: %d of %d to %d", ErrOffsetOutOfRange, offset, t.Segments[0].Base, next)
	}
	i := sort.Search(len(t.Segments), func(i int) bool { return t.Segments[i].Base > offset })
	return t.Segments[i-1], offset < next, nil
}

// gone turns the absence of a file that was dropped meanwhile into the range
// error it is.
func (l *Log) gone(offset int64, err error) error {
	if errors.Is(err, fs.ErrNotExist) && offset < l.StartOffset() {
		return fmt.Errorf("%w: %d was dropped", ErrOffsetOutOfRange, offset)
	}
	return err
}

// readFailed notes damage that a read has met.
func (l *Log) readFailed(err error) error {
	if err == nil || errors.Is(err, ErrOffsetOutOfRange) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err = asDamage(err); !errors.Is(err, ErrDamaged) {
		return err
	}
	err = fmt.Errorf("%s: %w", l.o.Dir, err)
	if l.reads.damage.CompareAndSwap(nil, &err) {
		l.o.Logger.Error("the log is damaged", "dir", l.o.Dir, "error", err)
	}
	return err
}

// Damage is the first damage that a read has met since the log was opened, or
// nil.
func (l *Log) Damage() error {
	if err := l.reads.damage.Load(); err != nil {
		return *err
	}
	return nil
}

// readIn reads from one segment.
func (l *Log) readIn(s journal.Segment, offset, bound int64, maxBytes int) (Chunk, error) {
	at, ok := l.reads.hint(s.Base, offset)
	if !ok {
		var err error
		if at, err = l.seekOffset(s, offset); err != nil {
			return Chunk{}, err
		}
	}
	switch {
	case at.Position >= s.Size:
		return Chunk{Next: s.NextOffset}, nil // nothing is left after a gap
	case at.Offset >= bound:
		return Chunk{Next: max(offset, min(at.Offset, bound))}, nil
	}
	f, err := l.openLog(s.Base)
	if err != nil {
		return Chunk{}, err
	}
	defer l.o.Files.release(f)
	b, err := readBatches(f, at.Position, min(s.Size-at.Position, max(int64(maxBytes), segment.HeaderSize)), s.Size-at.Position)
	if err != nil {
		return Chunk{}, err
	}
	n, next, err := l.checkBatches(s, at, b, bound)
	if err != nil {
		return Chunk{}, err
	}
	if n == 0 {
		return Chunk{Next: max(offset, min(next, bound))}, nil
	}
	l.reads.remember(s.Base, segment.At{Position: at.Position + int64(n), Offset: next})
	return Chunk{Bytes: b[:n:n], Next: next}, nil
}

// readBatches reads want bytes at a position, more if the first batch is larger,
// but no more than most.
func readBatches(r io.ReaderAt, position, want, most int64) ([]byte, error) {
	b := make([]byte, want)
	if err := readFull(r, b, position); err != nil {
		return nil, err
	}
	if len(b) < segment.HeaderSize {
		return b, nil
	}
	h, err := recordbatch.ParseHeader(b)
	size := int64(h.Size())
	if err != nil || size <= want || size > most {
		return b, nil // the caller looks at it
	}
	whole := make([]byte, size)
	copy(whole, b)
	return whole, readFull(r, whole[want:], position+want)
}

func readFull(r io.ReaderAt, b []byte, position int64) error {
	n, err := r.ReadAt(b, position)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: file ends at %d", segment.ErrCorrupt, position+int64(n))
	default:
		return fmt.Errorf("read segment: %w", err)
	}
}

// checkBatches says how many bytes of b, which begin at a place of a segment, are
// whole batches with a base below bound, and what offset comes after them. There
// is at least one, or the log is damaged; but that compaction may have left none
// between a place and bound.
func (l *Log) checkBatches(s journal.Segment, at segment.At, b []byte, bound int64) (n int, next int64, err error) {
	verify := !l.reads.verified(s.Base, at.Position, at.Position+int64(len(b)))
	spans := l.spansNow()
	next = at.Offset
	for n+segment.HeaderSize <= len(b) {
		h, err := recordbatch.ParseHeader(b[n:])
		if err != nil || h.BaseOffset < next || h.BaseOffset > next && s.Generation == 0 || h.NextOffset() > s.NextOffset || h.LeaderEpoch != epochAt(spans, h.BaseOffset) {
			return 0, 0, damagedAt(s, at.Position+int64(n))
		}
		if h.BaseOffset >= bound && n == 0 {
			return 0, h.BaseOffset, nil
		}
		if h.BaseOffset >= bound || h.Size() > len(b)-n {
			break
		}
		if verify && recordbatch.CheckCRC(b[n:n+h.Size()]) != nil {
			return 0, 0, damagedAt(s, at.Position+int64(n))
		}
		n += h.Size()
		next = h.NextOffset()
	}
	if n == 0 {
		// The first is below bound, and was read whole if it ends within the
		// segment: its length, which no checksum covers, is wrong.
		return 0, 0, damagedAt(s, at.Position)
	}
	if verify {
		l.reads.verify(s.Base, at.Position, at.Position+int64(n))
	}
	return n, next, nil
}

func damagedAt(s journal.Segment, position int64) error {
	return fmt.Errorf("%w: bad batch at %d of segment %d", ErrDamaged, position, s.Base)
}

// readBatch reads a whole batch and verifies it; size may be 0 if it is not
// known.
func (l *Log) readBatch(base, position, size int64) ([]byte, error) {
	f, err := l.openLog(base)
	if err != nil {
		return nil, err
	}
	defer l.o.Files.release(f)
	has, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of segment: %w", err)
	}
	b, err := readBatches(f, position, min(max(size, 4<<10), has-position), has-position)
	if err != nil {
		return nil, err
	}
	batch, _, err := recordbatch.Next(b)
	if err == nil {
		err = recordbatch.CheckCRC(batch)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: batch at %d of segment %d: %w", segment.ErrCorrupt, position, base, err)
	}
	return batch, nil
}
