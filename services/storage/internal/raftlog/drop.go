package raftlog

import (
	"github.com/sluiceio/sluice/services/storage/internal/journal"
)

// DropBefore deletes the oldest sealed segments, those that end at or below an
// offset and whose entries are at or below the applied index of the last point.
// It says how many and how many bytes of batches. Owner only.
//
// First the log's first index is raised, durably, and then the files go. A crash
// in between leaves files below it, which the next start removes.
func (l *Log) DropBefore(offset int64) (dropped int, bytes int64, err error) {
	if err := l.ready(); err != nil {
		return 0, 0, err
	}
	t := l.table()
	gone := l.droppable(offset)
	if len(gone) == 0 {
		return 0, 0, nil
	}
	if err := l.startWith(t.Segments[len(gone)]); err != nil {
		return 0, 0, l.fail(err)
	}
	for _, s := range gone {
		if err := l.removeSegment(s.Base); err != nil {
			return dropped, bytes, l.fail(err)
		}
		dropped++
		bytes += s.Size
	}
	return dropped, bytes, nil
}

// droppable are the segments that may go. The next segment's first index is one
// more than the last index of a segment.
func (l *Log) droppable(offset int64) []journal.Segment {
	t := l.table()
	n := 0
	for n+1 < len(t.Segments) && t.Segments[n].NextOffset <= offset && t.Segments[n+1].FirstIndex <= t.Applied+1 {
		n++
	}
	return append([]journal.Segment(nil), t.Segments[:n]...)
}

// startWith makes a segment the first, by writing the last point again. The first
// index is already higher if the segment came with a snapshot.
func (l *Log) startWith(s journal.Segment) error {
	last, err := l.journal.Load()
	if err != nil {
		return err
	}
	record, err := journal.Point(last.Applied, last.ConfState, last.State, max(s.FirstIndex, last.FirstIndex), s.Base)
	if err != nil {
		return err
	}
	if err := l.append(record); err != nil {
		return err
	}
	return l.compactJournal()
}
