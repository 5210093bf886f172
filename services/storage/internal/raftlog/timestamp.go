package raftlog

import (
	"fmt"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// FindTimestamp finds the first record of a batch whose base is below bound and
// whose timestamp is at least ts.
func (l *Log) FindTimestamp(ts, bound int64) (offset, timestamp int64, ok bool, err error) {
	l.files.RLock()
	defer l.files.RUnlock()
	for _, s := range l.segmentsNow() {
		if s.MaxTimestamp < ts {
			continue
		}
		if s.Base >= bound {
			break
		}
		offset, timestamp, ok, err = l.findTimestampIn(s, ts, bound)
		if ok || err != nil {
			return offset, timestamp, ok, l.readFailed(l.gone(s.Base, err))
		}
	}
	return 0, 0, false, nil
}

// segmentsNow is a copy of the segment table.
func (l *Log) segmentsNow() []journal.Segment {
	l.view.RLock()
	defer l.view.RUnlock()
	return append([]journal.Segment(nil), l.view.table.Segments...)
}

func (l *Log) findTimestampIn(s journal.Segment, ts, bound int64) (offset, timestamp int64, ok bool, err error) {
	at, err := l.seek(s,
		// All before such an entry is too old.
		func(e segment.IndexEntry) bool { return e.MaxTimestamp < ts },
		func(b segment.Batch) bool { return b.Header.MaxTimestamp < ts && b.Header.BaseOffset < bound })
	if err != nil || at.Position >= s.Size || at.Offset >= bound {
		return 0, 0, false, err
	}
	return l.recordFrom(s, at, ts)
}

// recordFrom finds the first record with at least a timestamp in the batch at a
// place.
func (l *Log) recordFrom(s journal.Segment, at segment.At, ts int64) (offset, timestamp int64, ok bool, err error) {
	batch, err := l.readBatch(s.Base, at.Position, 0)
	if err != nil {
		return 0, 0, false, err
	}
	for r, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
		if err != nil {
			return 0, 0, false, fmt.Errorf("%w: records at %d of segment %d: %w", segment.ErrCorrupt, at.Position, s.Base, err)
		}
		if r.Timestamp >= ts {
			return r.Offset, r.Timestamp, true, nil
		}
	}
	return 0, 0, false, nil
}

// MaxTimestamp finds the first record with the largest timestamp in the batches
// whose base is below bound.
func (l *Log) MaxTimestamp(bound int64) (offset, timestamp int64, ok bool, err error) {
	l.files.RLock()
	defer l.files.RUnlock()
	best, in := int64(-1), journal.Segment{}
	segments := l.segmentsNow()
	for _, s := range segments {
		if s.Base >= bound {
			break
		}
		if s.MaxTimestamp > best && s.MaxTimestampOffset >= bound {
			// The largest is not to be seen yet: find the one before.
			if s, err = l.bounded(s, bound); err != nil {
				return 0, 0, false, l.readFailed(l.gone(s.Base, err))
			}
		}
		if s.MaxTimestamp > best {
			best, in = s.MaxTimestamp, s
		}
	}
	if best < 0 {
		return 0, 0, false, nil
	}
	at, err := l.seekOffset(in, in.MaxTimestampOffset)
	if err == nil {
		offset, timestamp, ok, err = l.recordFrom(in, at, best)
	}
	return offset, timestamp, ok, l.readFailed(l.gone(in.Base, err))
}

// bounded is what a segment's largest timestamp is below an offset.
func (l *Log) bounded(s journal.Segment, bound int64) (journal.Segment, error) {
	e, err := l.nearest(s, func(e segment.IndexEntry) bool { return e.Offset < bound })
	if err != nil {
		return s, err
	}
	f, err := l.openLog(s.Base)
	if err != nil {
		return s, err
	}
	defer l.o.Files.release(f)
	b := segment.NewIndexBuilder(indexOf(s), 0, 0, e.MaxTimestamp, e.MaxTimestampOffset)
	_, err = walk(f, s, e.At, func(batch segment.Batch) bool {
		if batch.Header.BaseOffset >= bound {
			return false
		}
		b.Add(batch)
		return true
	})
	s.MaxTimestamp, s.MaxTimestampOffset = b.Max()
	return s, err
}
