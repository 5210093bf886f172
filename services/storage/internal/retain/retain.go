// Package retain holds the rules of what a partition's log keeps: which sealed
// segments retention lets go, and which compaction is due to rewrite. It is pure:
// segments, configs and the clock go in, a decision comes out.
//
// # How old a segment is
//
// As old as its newest record says, by the largest timestamp of its batches, but
// no younger than the wall clock of its last append: a record that is dated in
// the far future keeps nothing longer than it has been here. A record dated in
// the past makes its segment old at once, as in Kafka: who writes history into a
// topic with a retention does not keep it.
//
// A segment without any timestamp is as old as its last append. After a crash
// the last append of what was recovered counts as that of the recovery.
package retain

// Unlimited is the retention.ms and the retention.bytes of what is kept for ever.
const Unlimited int64 = -1

// Segment is what the rules look at. Offsets of a segment are [Base, Next).
type Segment struct {
	Base, Next   int64
	Size         int64
	MaxTimestamp int64 // largest of its batches in milliseconds; below 0: none
	// Wall clock of its first and last append; 0: unknown.
	FirstAppendMs, LastAppendMs int64
	Sealed                      bool  // else it is the one being written to
	CleanTo                     int64 // compaction has cleaned what is below this offset
	HorizonMs                   int64 // latest horizon of its tombstones; 0: it has none
}

// bornMs is the time from which a segment's age counts.
func (s Segment) bornMs() int64 {
	switch {
	case s.MaxTimestamp < 0:
		return s.LastAppendMs
	case s.LastAppendMs == 0:
		return s.MaxTimestamp
	default:
		return min(s.MaxTimestamp, s.LastAppendMs)
	}
}

// Limits are retention.ms and retention.bytes; Unlimited is none.
type Limits struct {
	Ms    int64
	Bytes int64
}

// Start is the start offset of a log after retention: that of the oldest segment
// that stays. Sealed segments go, oldest first, while they are too old or the
// rest is still as large as the limit; never one that ends above bound, the high
// watermark. It is start, the offset at which the log starts now, if all stay.
func Start(segments []Segment, limits Limits, start, bound, nowMs int64) int64 {
	surplus := -limits.Bytes
	for _, s := range segments {
		surplus += s.Size
	}
	for _, s := range segments {
		tooOld := limits.Ms >= 0 && nowMs-s.bornMs() > limits.Ms
		tooMuch := limits.Bytes >= 0 && surplus >= s.Size
		if !s.Sealed || s.Next > bound || !tooOld && !tooMuch && s.Next > start {
			break
		}
		surplus -= s.Size
		start = max(start, s.Next)
	}
	return start
}
