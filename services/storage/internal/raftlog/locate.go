package raftlog

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// A walk that takes more batches and bytes than this tells that the index lacks
// entries, and it is written anew.
const (
	walkBatches = 64
	walkBytes   = 1 << 20
)

// openLog opens the log file of a segment to read. The caller releases it.
func (l *Log) openLog(base int64) (*sharedFile, error) {
	return l.o.Files.acquire(fileKey{l, base, false}, func() (vfs.File, error) {
		f, err := l.o.FS.OpenRead(l.name(segment.LogName(base)))
		if err != nil {
			return nil, fmt.Errorf("open segment: %w", err)
		}
		return f, nil
	})
}

// startOf is the place where a segment's first batch begins.
func startOf(s journal.Segment) segment.At {
	return segment.At{Offset: s.Base, Index: s.FirstIndex}
}

// nearest finds the last index entry of a segment that is before a place, or the
// segment's start.
func (l *Log) nearest(s journal.Segment, before func(segment.IndexEntry) bool) (segment.IndexEntry, error) {
	if e, ok := l.tail.find(s.Base, before); ok {
		return e, nil
	}
	e, i, err := l.lastFiled(s, before)
	if errors.Is(err, segment.ErrBadIndex) {
		l.warn("index is written anew", "segment", s.Base, "error", err)
		if err := l.rebuildIndex(s); err != nil {
			return segment.IndexEntry{}, err
		}
		e, i, err = l.lastFiled(s, before)
	}
	switch {
	case err != nil:
		return segment.IndexEntry{}, err
	case i < 0 || e.Position >= s.Size:
		return segment.IndexEntry{At: startOf(s), MaxTimestamp: -1, MaxTimestampOffset: -1}, nil
	default:
		return e, nil
	}
}

// seek finds the first batch of a segment that is not before a place. earlier
// tells index entries whose batch is before the place or at it, skip batches
// that are wholly before it. It returns the end of the segment if there is none.
func (l *Log) seek(s journal.Segment, earlier func(segment.IndexEntry) bool, skip func(segment.Batch) bool) (segment.At, error) {
	from, err := l.nearest(s, earlier)
	if err != nil {
		return segment.At{}, err
	}
	f, err := l.openLog(s.Base)
	if err != nil {
		return segment.At{}, err
	}
	defer l.o.Files.release(f)
	n := 0
	at, err := walk(f, s, from.At, func(b segment.Batch) bool {
		n++
		return skip(b)
	})
	if err != nil {
		return segment.At{}, err
	}
	if n > walkBatches && at.Position-from.Position > walkBytes+2*l.o.Limits().IndexInterval {
		l.warn("index has gaps and is written anew", "segment", s.Base)
		if err := l.rebuildIndex(s); err != nil {
			return segment.At{}, err
		}
	}
	return at, nil
}

// seekOffset finds the batch of a segment that holds an offset, or the next one
// if it is in a gap.
func (l *Log) seekOffset(s journal.Segment, offset int64) (segment.At, error) {
	if offset <= s.Base {
		return startOf(s), nil
	}
	return l.seek(s,
		func(e segment.IndexEntry) bool { return e.Offset <= offset },
		func(b segment.Batch) bool { return b.Header.NextOffset() <= offset })
}

// place finds the first batch with at least a raft index: the position of its
// segment and its place, with its index. If there is none, it is the end of the
// log. Owner only; index must not be below FirstIndex.
func (l *Log) place(index uint64) (int, segment.At, error) {
	t := l.table()
	i := t.SegmentOfIndex(index)
	s := t.Segments[i]
	if index >= s.NextIndex {
		return i, segment.At{Position: s.Size, Offset: s.NextOffset, Index: s.NextIndex}, nil
	}
	// Walk counts batches only, from the index entry on.
	between := uint64(0)
	at, err := l.seek(s,
		func(e segment.IndexEntry) bool { return e.Index <= index },
		func(b segment.Batch) bool {
			batch := t.BatchIndex(b.Index + between)
			between = batch - b.Index
			return batch < index
		})
	if err != nil {
		return 0, segment.At{}, err
	}
	at.Index += between
	return i, at, nil
}
