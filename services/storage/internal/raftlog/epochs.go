package raftlog

import (
	"sort"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
)

// spansNow are the runs of one term. What is added later is not in the slice,
// and nothing in it changes.
func (l *Log) spansNow() []journal.Span {
	l.view.RLock()
	defer l.view.RUnlock()
	return l.view.table.Spans
}

// epochAt is the term of the span that an offset lies in. Of spans that start at
// the same offset only the last can have batches.
func epochAt(spans []journal.Span, offset int64) int32 {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].StartOffset > offset })
	if i == 0 {
		return -1
	}
	return int32(spans[i-1].Term)
}

// EpochAt is the leader epoch, the raft term, of the batch that holds an offset;
// past the end that of the last entry, and -1 below the first that is known.
func (l *Log) EpochAt(offset int64) int32 { return epochAt(l.spansNow(), offset) }

// EpochEnd is Kafka's answer to where an epoch ended: the largest epoch that is
// not above the one asked for and has batches or is the last, and the offset
// after its last record; end is the end of the log as the caller sees it. It is
// -1, -1 for an epoch above the last, and for none. For one below the first known
// it is the epoch itself and the offset where the first known starts.
func (l *Log) EpochEnd(epoch int32, end int64) (int32, int64) {
	spans := withBatches(l.spansNow())
	i := sort.Search(len(spans), func(i int) bool { return spans[i].Term > uint64(max(epoch, 0)) })
	last := spans[len(spans)-1]
	switch {
	case epoch < 0 || uint64(epoch) > last.Term:
		return -1, -1
	case i == 0:
		return epoch, spans[0].StartOffset
	case i == len(spans):
		return int32(last.Term), end
	default:
		return int32(spans[i-1].Term), spans[i].StartOffset
	}
}

// FirstEpoch is the first leader epoch that is known, and the offset that it
// begins at.
func (l *Log) FirstEpoch() (epoch int32, start int64) {
	first := withBatches(l.spansNow())[0]
	return int32(first.Term), first.StartOffset
}

// withBatches leaves out the spans that have none, but for the last.
func withBatches(spans []journal.Span) []journal.Span {
	var kept []journal.Span
	for i, s := range spans {
		if i+1 == len(spans) || spans[i+1].StartOffset > s.StartOffset {
			kept = append(kept, s)
		}
	}
	return kept
}
