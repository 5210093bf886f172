package raftlog

import (
	"time"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
)

// doomed is a segment that the log no longer has and whose files still stand.
type doomed struct {
	base int64
	due  time.Time
}

// DropBefore drops the oldest sealed segments, those that end at or below an
// offset and whose entries are at or below the applied index of the last point.
// It says how many and how many bytes of batches. Owner only.
//
// First the log's first index is raised, durably; from then on nobody finds the
// segments. Their files go at once, or with a Bury after Options.DeleteGrace. A
// crash in between leaves files below the log's start, which the next start
// removes.
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
	due := l.o.Now().Add(l.o.DeleteGrace)
	for _, s := range gone {
		l.doomed = append(l.doomed, doomed{s.Base, due})
		dropped++
		bytes += s.Size
	}
	_, err = l.Bury()
	return dropped, bytes, err
}

// Bury removes the files of dropped segments whose grace is over, and says when
// it is to be called next; the zero time is never. Owner only.
//
// The bases are looked up once more: a snapshot may have brought segments with
// the same names.
func (l *Log) Bury() (next time.Time, err error) {
	if err := l.ready(); err != nil {
		return time.Time{}, err
	}
	now := l.o.Now()
	for len(l.doomed) > 0 && !l.doomed[0].due.After(now) {
		if base := l.doomed[0].base; base < l.table().Segments[0].Base {
			if err := l.removeSegment(base); err != nil {
				return time.Time{}, l.fail(err)
			}
		}
		l.doomed = l.doomed[1:]
	}
	if len(l.doomed) == 0 {
		l.doomed = nil
		return time.Time{}, nil
	}
	return l.doomed[0].due, nil
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
