package raftlog

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// recoverTail finds the end of the active segment, whose file has a size, and
// tells how many bytes after it are of no use.
//
// It begins at the last place of which all before is known to be durable: a
// checkpoint of the journal, or an index entry below the synced position of the
// note. What it finds beyond the note may stand in the page cache alone, so it
// is synced before anybody relies on it.
func (l *Log) recoverTail(note journal.Note, size int64) (torn int64, err error) {
	a := l.active()
	synced := int64(0)
	if l.table().Checkpoint {
		synced = a.Size
	} else {
		*a = emptied(*a)
	}
	if note.Base == a.Base {
		synced = max(synced, note.Synced)
	}
	if size < synced {
		return 0, fmt.Errorf("%w: segment %d has %d bytes, %d were synced", ErrDamaged, a.Base, size, synced)
	}
	from, err := l.recoverFrom(synced)
	if err != nil {
		return 0, err
	}
	res, err := l.scanTail(from, size)
	if err != nil {
		return 0, err
	}
	switch {
	case res.End.Position < synced:
		return 0, fmt.Errorf("%w: bad batch at %d of segment %d, synced up to %d", ErrDamaged, res.End.Position, a.Base, synced)
	case res.Chain && l.o.Replicated:
		return 0, fmt.Errorf("%w: bad batch at %d of segment %d, good ones follow", ErrDamaged, res.End.Position, a.Base)
	}
	if res.Bad {
		l.warn("torn tail was cut", "segment", a.Base, "at", res.End.Position, "bytes", size-res.End.Position)
		torn = size - res.End.Position
	}
	if res.End.Position > synced || res.Bad {
		if err := segment.CutFile(l.o.FS, l.name(segment.LogName(a.Base)), res.End.Position); err != nil {
			return 0, err
		}
	}
	return torn, nil
}

// emptied is a segment of which only the beginning is known.
func emptied(s journal.Segment) journal.Segment {
	s.Size, s.NextOffset, s.NextIndex = 0, s.Base, s.FirstIndex
	s.MaxTimestamp, s.MaxTimestampOffset = -1, -1
	return s
}

// recoverFrom sets the active segment's end to where a scan is to begin, and
// cuts its index there.
func (l *Log) recoverFrom(synced int64) (segment.At, error) {
	a := l.active()
	e, i, err := l.lastFiled(*a, func(e segment.IndexEntry) bool { return e.Position < synced })
	if err != nil && !errors.Is(err, segment.ErrBadIndex) {
		return segment.At{}, err
	}
	if err != nil {
		l.warn("index is written anew", "segment", a.Base, "error", err)
		i = -1
	}
	if i >= 0 {
		ok, err := l.confirm(e, synced)
		if err != nil {
			return segment.At{}, err
		}
		if !ok {
			i = -1
		}
	}
	if i < 0 {
		// Without its index the whole segment is read, checkpoint or not.
		*a = emptied(*a)
		if err := l.removeIndex(a.Base); err != nil {
			return segment.At{}, err
		}
		l.startIndex(0, 0)
		return startOf(*a), nil
	}
	if err := l.cutIndex(a.Base, i+1); err != nil {
		return segment.At{}, err
	}
	a.Size, a.NextOffset, a.NextIndex = e.Position, e.Offset, e.Index
	a.MaxTimestamp, a.MaxTimestampOffset = e.MaxTimestamp, e.MaxTimestampOffset
	l.startIndex(i+1, e.Position)
	return e.At, nil
}

// confirm says whether an index entry is of the log that is there: offset and
// term together name one entry of raft for all time.
func (l *Log) confirm(e segment.IndexEntry, size int64) (bool, error) {
	a := l.active()
	f, err := l.openLog(a.Base)
	if err != nil {
		return false, err
	}
	defer l.o.Files.release(f)
	span, ok := l.table().SpanOfIndex(e.Index)
	if !ok {
		return false, nil
	}
	return segment.IsBatch(f, size, e.At, int32(span.Term))
}

// scanTail checks the batches of the active segment from a place on and adds
// them to its end.
func (l *Log) scanTail(from segment.At, size int64) (segment.ScanResult, error) {
	a, t := l.active(), l.table()
	f, err := l.openLog(a.Base)
	if err != nil {
		return segment.ScanResult{}, err
	}
	defer l.o.Files.release(f)
	var flushing error
	now := l.o.Now().UnixMilli()
	res, err := segment.Scan(f, size, from, l.expect, func(b segment.Batch) {
		if e, due := l.tail.builder.Add(b); due && l.tail.add(e) >= indexFlush && flushing == nil {
			flushing = l.flushIndex(false)
		}
		a.Size, a.NextOffset, a.NextIndex = b.End().Position, b.End().Offset, b.End().Index
		// Nobody knows when; retention must not be early.
		a.LastAppendMs = now
		if a.FirstAppendMs == 0 {
			a.FirstAppendMs = now
		}
	})
	a.MaxTimestamp, a.MaxTimestampOffset = l.tail.builder.Max()
	t.Checkpoint = true
	return res, errors.Join(err, flushing)
}

// expect tells what batch can come at a place. The journal's entries with indexes
// in between must precede the very offset of the place, and those with higher
// indexes a higher one.
func (l *Log) expect(at segment.At) (index uint64, epoch int32, ok bool) {
	t := l.table()
	index = at.Index
	for _, e := range t.Entries[t.EntryAt(at.Index):] {
		if e.GetIndex() > index && e.Offset > at.Offset {
			break
		}
		if e.GetIndex() != index || e.Offset != at.Offset {
			return 0, 0, false
		}
		index++
	}
	span, ok := t.SpanOfIndex(index)
	return index, int32(span.Term), ok
}
