package raftlog

// SegmentStat describes a segment.
type SegmentStat struct {
	Base, Next int64 // its offsets are [Base, Next)
	FirstIndex uint64
	Size       int64
	// MaxTimestamp is the largest of its batches', -1 if there is none.
	MaxTimestamp int64
	// LastAppendMs is the wall clock of its last append, 0 if there was none.
	// After a crash it is that of the recovery.
	LastAppendMs int64
	// FirstAppendMs is that of its first append.
	FirstAppendMs int64
	Sealed        bool

	// Generation, CleanTo and HorizonMs are what compaction has done; see
	// journal.Segment.
	Generation uint32
	CleanTo    int64
	HorizonMs  int64
}

// Stats describes a log.
type Stats struct {
	// Segments ascend; the last one is active.
	Segments              []SegmentStat
	Bytes                 int64
	FirstIndex, LastIndex uint64
}

// Stats describes the log as it is now.
func (l *Log) Stats() Stats {
	l.view.RLock()
	defer l.view.RUnlock()
	t := &l.view.table
	s := Stats{Segments: make([]SegmentStat, 0, len(t.Segments)), FirstIndex: t.FirstIndex, LastIndex: l.view.lastIndex}
	for i, x := range t.Segments {
		s.Bytes += x.Size
		s.Segments = append(s.Segments, SegmentStat{
			Base: x.Base, Next: x.NextOffset, FirstIndex: x.FirstIndex, Size: x.Size,
			MaxTimestamp: x.MaxTimestamp, LastAppendMs: x.LastAppendMs, Sealed: i+1 < len(t.Segments),
			FirstAppendMs: x.FirstAppendMs, Generation: x.Generation, CleanTo: x.CleanTo, HorizonMs: x.HorizonMs,
		})
	}
	return s
}
