package raftlog

import "github.com/sluiceio/sluice/services/storage/internal/journal"

// JournalEntries is how many of Raft's entries that are no batch the log holds, in
// memory and in the journal. Owner only.
func (l *Log) JournalEntries() int { return len(l.table().Entries) }

// Shorten keeps the entries that are no batch from piling up where nothing else
// ever raises the first index: fences, starts and terms come without end, also to
// a partition that keeps its records for good. Once there are more than twice as
// many as are to be kept it writes a point that raises the first index, and says
// that it did. Batches stay readable; raft has no entries of them any more, so a
// replica that lacks one of them needs a snapshot. Entries from needed on stay.
// Owner only.
//
// The first index is always that of a segment. If none of the segments' will do,
// the active one is sealed early; and if that has no batches, it begins where the
// log does.
func (l *Log) Shorten(p Point, keep int, needed uint64) (shortened bool, err error) {
	if l.JournalEntries() <= 2*keep {
		return false, nil
	}
	// Refuses a point that is none.
	if _, err := l.pointRecord(p); err != nil {
		return false, err
	}
	limit := min(p.Applied+1, needed)
	first := l.boundary(keep, limit)
	if first == 0 {
		if first, err = l.makeBoundary(keep, limit); first == 0 {
			return false, l.fail(err)
		}
	}
	record, err := journal.Point(p.Applied, p.ConfState, p.State, first, l.table().Segments[0].Base)
	if err != nil {
		return false, err
	}
	before := l.active().FirstIndex
	if err := l.append(record); err != nil {
		return false, l.fail(err)
	}
	if l.active().FirstIndex != before {
		// Index entries count from the segment's first index.
		l.tail.unload()
	}
	return true, l.fail(l.compactJournal())
}

// boundary is the lowest first index of a segment, up to a limit, that leaves no
// more entries than are to be kept; or, if there is none, the highest that makes
// them fewer by as many. 0 if there is none either.
func (l *Log) boundary(keep int, limit uint64) (first uint64) {
	t := l.table()
	for _, s := range t.Segments {
		dropped := t.EntryAt(s.FirstIndex)
		if s.FirstIndex <= t.FirstIndex || s.FirstIndex > limit || dropped < keep {
			continue
		}
		first = s.FirstIndex
		if len(t.Entries)-dropped <= keep {
			break
		}
	}
	return first
}

// makeBoundary is a first index that the active segment can be given, or that of a
// new one; 0 if something of the active segment is needed yet.
func (l *Log) makeBoundary(keep int, limit uint64) (first uint64, err error) {
	t := l.table()
	if l.active().Size == 0 {
		first = min(limit, t.Entries[len(t.Entries)-keep].GetIndex())
		if first <= l.active().FirstIndex {
			return 0, nil
		}
		return first, nil
	}
	if limit <= l.view.lastIndex {
		return 0, nil
	}
	if err := l.roll(limit); err != nil {
		return 0, err
	}
	return limit, nil
}
