package retain

// Compaction is what a compacted topic's config says of when to clean.
type Compaction struct {
	// MinLagMs is how long a record stays as it is (min.compaction.lag.ms).
	MinLagMs int64
	// MaxLagMs is after how long it is cleaned even if there is little to do
	// (max.compaction.lag.ms).
	MaxLagMs int64
	// DirtyRatio is the share of a log's bytes that must be new since the last
	// time (min.cleanable.dirty.ratio).
	DirtyRatio float64
	// TombstoneMs is how long tombstones stay after they were first seen
	// (delete.retention.ms).
	TombstoneMs int64
}

// Work is what compaction is to do.
type Work struct {
	// Records of offsets [From, To) are new: older ones of their keys go. What is
	// below From is clean. From is To when tombstones alone are due.
	From, To int64
	// First and Last say which segments are to be written anew: [First, Last).
	First, Last int
}

// Due says what is to be cleaned, if it is worth it. Sealed segments alone are
// cleaned, never past bound, the high watermark or the last stable offset, nor
// what is younger than the lag. asked says that somebody asks for it, so that
// little to do is no reason to wait.
func (c Compaction) Due(segments []Segment, bound, nowMs int64, asked bool) (Work, bool) {
	last, firstDirty := 0, -1
	var all, dirty int64
	overdue := false
	for last < len(segments) {
		s := segments[last]
		if !s.Sealed || s.Next > bound || c.MinLagMs > 0 && nowMs-s.bornMs() < c.MinLagMs {
			break
		}
		all += s.Size
		if s.CleanTo < s.Next && firstDirty < 0 {
			firstDirty = last
		}
		if firstDirty >= 0 {
			dirty += s.Size
			overdue = overdue || nowMs-s.FirstAppendMs > c.MaxLagMs
		}
		last++
	}
	if dirty > 0 && (asked || overdue || float64(dirty) > c.DirtyRatio*float64(all)) {
		s := segments[firstDirty]
		return Work{From: max(s.Base, s.CleanTo), To: segments[last-1].Next, Last: last}, true
	}
	work := Work{First: -1}
	for i, s := range segments[:last] {
		if s.HorizonMs == 0 || s.HorizonMs > nowMs {
			continue
		}
		if work.First < 0 {
			work.First = i
		}
		work.Last, work.From, work.To = i+1, s.CleanTo, s.CleanTo
	}
	return work, work.First >= 0
}
