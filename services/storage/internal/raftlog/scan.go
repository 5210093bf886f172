package raftlog

import (
	"errors"
	"fmt"
	"sort"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// ErrReplaced is what those get who work on a segment that was dropped, or
// written anew, meanwhile.
var ErrReplaced = errors.New("segment was replaced")

// scanBuffer is what Scan reads at once, if no batch is larger.
const scanBuffer = 256 << 10

// ScanHeaders gives the header of each batch of a sealed segment in order.
func (l *Log) ScanHeaders(base int64, generation uint32, visit func(recordbatch.Header) error) error {
	return l.scan(base, generation, func(f vfs.File, s journal.Segment) error {
		var stop error
		_, err := walk(f, s, startOf(s), func(b segment.Batch) bool {
			stop = visit(b.Header)
			return stop == nil
		})
		if stop != nil {
			return stop
		}
		return l.scanFailed(err)
	})
}

// Scan gives each batch of a sealed segment in order, whole and verified, and
// valid until visit returns. It holds nobody up: it reads the segment as it was
// when it began, whatever becomes of it.
func (l *Log) Scan(base int64, generation uint32, visit func(batch []byte) error) error {
	return l.scan(base, generation, func(f vfs.File, s journal.Segment) error {
		return l.scanBatches(f, s, func(_ int64, batch []byte) error { return visit(batch) })
	})
}

// scanBatches gives each batch with its position.
func (l *Log) scanBatches(f vfs.File, s journal.Segment, visit func(position int64, batch []byte) error) error {
	buf := make([]byte, 0, min(scanBuffer, s.Size))
	for at, next := int64(0), s.Base; at < s.Size; {
		b, err := fill(f, buf, at, s.Size)
		if err != nil {
			return l.scanFailed(err)
		}
		buf = b
		n := int64(0)
		for {
			batch, err := l.wholeBatch(s, b[n:], at+n, next)
			if err != nil {
				return l.scanFailed(err)
			}
			if batch == nil {
				break
			}
			if err := visit(at+n, batch); err != nil {
				return err
			}
			h, _ := recordbatch.ParseHeader(batch)
			n, next = n+int64(len(batch)), h.NextOffset()
		}
		at += n
	}
	return nil
}

// fill reads at a position into a buffer that holds a batch from there on, a
// larger one if need be.
func fill(f vfs.File, buf []byte, at, size int64) ([]byte, error) {
	b, err := readInto(f, buf, at, min(int64(cap(buf)), size-at))
	if err != nil || len(b) < segment.HeaderSize {
		return b, err
	}
	h, err := recordbatch.ParseHeader(b)
	if whole := int64(h.Size()); err == nil && whole > int64(len(b)) && whole <= size-at {
		return readInto(f, make([]byte, 0, whole), at, whole)
	}
	return b, nil // the caller looks at it
}

func readInto(f vfs.File, buf []byte, at, n int64) ([]byte, error) {
	b := buf[:n]
	return b, readFull(f, b, at)
}

// wholeBatch cuts the next batch off the bytes of a segment from a position on,
// and checks it. It is nil if it does not end in them, though it does in the
// segment.
func (l *Log) wholeBatch(s journal.Segment, b []byte, position, next int64) ([]byte, error) {
	if len(b) < segment.HeaderSize && position+int64(len(b)) < s.Size {
		return nil, nil
	}
	if len(b) == 0 {
		return nil, nil
	}
	h, err := recordbatch.ParseHeader(b)
	if err != nil || h.BaseOffset < next || h.BaseOffset > next && s.Generation == 0 || h.NextOffset() > s.NextOffset ||
		h.LeaderEpoch != epochAt(l.spansNow(), h.BaseOffset) || int64(h.Size()) > s.Size-position {
		return nil, damagedAt(s, position)
	}
	if h.Size() > len(b) {
		return nil, nil
	}
	batch := b[:h.Size():h.Size()]
	if recordbatch.CheckCRC(batch) != nil {
		return nil, damagedAt(s, position)
	}
	return batch, nil
}

// scan opens the log file of a sealed segment in a generation, apart from those
// that readers share.
func (l *Log) scan(base int64, generation uint32, read func(vfs.File, journal.Segment) error) error {
	f, s, err := l.openSealed(base, generation)
	if err != nil {
		return err
	}
	return errors.Join(read(f, s), f.Close())
}

func (l *Log) openSealed(base int64, generation uint32) (vfs.File, journal.Segment, error) {
	if l.closed.Load() {
		return nil, journal.Segment{}, ErrClosed
	}
	l.files.RLock()
	defer l.files.RUnlock()
	segments := l.segmentsNow()
	i := sort.Search(len(segments), func(i int) bool { return segments[i].Base >= base })
	if i >= len(segments)-1 || segments[i].Base != base || segments[i].Generation != generation {
		return nil, journal.Segment{}, fmt.Errorf("%w: %d", ErrReplaced, base)
	}
	f, err := l.o.FS.OpenRead(l.name(segment.LogName(base)))
	if err != nil {
		return nil, journal.Segment{}, l.scanFailed(fmt.Errorf("open segment: %w", err))
	}
	return f, segments[i], nil
}

// scanFailed is readFailed for a scan, which a stop may overtake.
func (l *Log) scanFailed(err error) error {
	if err != nil && l.closed.Load() {
		return ErrClosed
	}
	return l.readFailed(err)
}
