package raftlog

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// cut removes all entries from an index on. records become durable with its
// beginning.
//
// Some of what it removes may be gone after a crash in between and some not, and
// what is written next must never stand beside remains. Hence two records: while
// only the first is there, the cut is done again; once the second is there, all
// that it removed is gone for good, and what lies beyond is new.
func (l *Log) cut(index uint64, records []journal.Record) error {
	i, at, err := l.place(index)
	if err != nil {
		return err
	}
	target := l.table().Segments[i]
	c := journal.Cut{Index: index, Base: target.Base, Position: at.Position, NextOffset: at.Offset}
	gone := l.table().Segments[i+1:]
	bases := make([]int64, 0, len(gone))
	for _, s := range gone {
		bases = append(bases, s.Base)
	}
	if err := l.append(append(records, journal.CutBegin(c))...); err != nil {
		return err
	}
	return l.finishCut(bases)
}

// finishCut does what the cut that the table speaks of asks for; bases are those
// of segments beyond it that may have files, ascending.
func (l *Log) finishCut(bases []int64) error {
	c := *l.table().Cut
	l.recent.cut(c.Index)
	l.reads.cut(c)
	l.tail.unload()
	if err := l.closeWriter(); err != nil {
		return err
	}
	// The note that comes with the second record must not call synced what
	// goes. One of before that record is not believed.
	if err := l.journal.SetNote(c.Base, c.Position, l.commit); err != nil {
		return err
	}
	for i := len(bases) - 1; i >= 0; i-- {
		if err := l.removeSegment(bases[i]); err != nil {
			return err
		}
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	if err := segment.CutFile(l.o.FS, l.name(segment.LogName(c.Base)), c.Position); err != nil {
		return err
	}
	end, err := l.endOfCut(c)
	if err != nil {
		return err
	}
	return l.append(journal.CutDone(end))
}

// endOfCut describes what is left of the segment that is now the last, and cuts
// its index too.
func (l *Log) endOfCut(c journal.Cut) (journal.Segment, error) {
	end := *l.active()
	end.Size, end.NextOffset = c.Position, c.NextOffset
	e, i, err := l.lastFiled(end, func(e segment.IndexEntry) bool { return e.Position < c.Position })
	if err != nil && !errors.Is(err, segment.ErrBadIndex) {
		return end, err
	}
	if err != nil {
		i = -1
	}
	if i < 0 {
		e = segment.IndexEntry{At: startOf(end), MaxTimestamp: -1, MaxTimestampOffset: -1}
	}
	if err := l.cutIndex(end.Base, i+1); err != nil {
		return end, err
	}
	return l.walkEnd(end, e)
}

// walkEnd finds out what the batches of a segment from an index entry on add up
// to.
func (l *Log) walkEnd(end journal.Segment, from segment.IndexEntry) (journal.Segment, error) {
	f, err := l.openLog(end.Base)
	if err != nil {
		return end, err
	}
	defer l.o.Files.release(f)
	b := segment.NewIndexBuilder(indexOf(end), 0, 0, from.MaxTimestamp, from.MaxTimestampOffset)
	end.NextIndex = from.Index
	_, err = segment.Walk(f, end.Size, from.At, func(batch segment.Batch) bool {
		b.Add(batch)
		end.NextIndex = l.table().BatchIndex(end.NextIndex) + 1
		return true
	})
	end.MaxTimestamp, end.MaxTimestampOffset = b.Max()
	if err == nil && end.Size == 0 {
		end.FirstAppendMs, end.LastAppendMs = 0, 0
	}
	return end, err
}

// removeSegment removes the files of a segment, as far as they are there.
func (l *Log) removeSegment(base int64) error {
	l.o.Files.drop(fileKey{l, base, false}, fileKey{l, base, true})
	for _, name := range []string{segment.IndexName(base), segment.LogName(base)} {
		if err := l.o.FS.Remove(l.name(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove segment: %w", err)
		}
	}
	return nil
}
