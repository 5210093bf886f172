package tier

import (
	"sort"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// Segment is a segment in cold storage. Its offsets are [Base, Next).
type Segment struct {
	Object
	Next int64
	// Size is that of the batches, IndexSize that of the index behind them.
	Size, IndexSize int64
	// CRC is the CRC-32C of the whole object.
	CRC uint32
	// MaxTimestamp is the largest of the batches', -1 if there is none, and
	// MaxTimestampOffset the base offset of the first batch that has it.
	MaxTimestamp, MaxTimestampOffset int64
	// Wall clock: of the last append, and of the end of the upload.
	LastAppendMs, UploadedMs int64
	// Gaps tells that offsets may be missing between batches, since compaction had
	// cleaned the segment before its topic came here.
	Gaps bool
	// Epochs are the leader epochs of the batches: the first begins at Base, terms
	// and starts ascend.
	Epochs []Epoch
}

// Epoch is where a leader epoch begins.
type Epoch struct {
	Term  uint64
	Start int64
}

func (s *Segment) valid() bool {
	if !s.Object.valid() || s.Next <= s.Base || s.Size <= 0 || s.IndexSize < 0 ||
		len(s.Epochs) == 0 || s.Epochs[0].Start != s.Base {
		return false
	}
	for i, e := range s.Epochs {
		if e.Term == 0 || e.Term > s.Term || e.Start >= s.Next {
			return false
		}
		if i > 0 && (e.Term <= s.Epochs[i-1].Term || e.Start <= s.Epochs[i-1].Start) {
			return false
		}
	}
	return true
}

// EpochAt is the leader epoch of an offset of the segment.
func (s *Segment) EpochAt(offset int64) int32 {
	i := sort.Search(len(s.Epochs), func(i int) bool { return s.Epochs[i].Start > offset })
	if i == 0 {
		return -1
	}
	return int32(s.Epochs[i-1].Term)
}

// Encode is the segment as commands and states have it.
func (s *Segment) Encode() *persistv1.ColdSegment {
	out := &persistv1.ColdSegment{
		Object: s.Object.Encode(), NextOffset: s.Next, SizeBytes: s.Size, IndexBytes: s.IndexSize, Crc32C: s.CRC,
		MaxTimestamp: s.MaxTimestamp, MaxTimestampOffset: s.MaxTimestampOffset,
		LastAppendMs: s.LastAppendMs, UploadedAtMs: s.UploadedMs, Gaps: s.Gaps,
	}
	for _, e := range s.Epochs {
		out.Epochs = append(out.Epochs, &persistv1.ColdEpoch{Term: e.Term, StartOffset: e.Start})
	}
	return out
}

func decodeSegment(p *persistv1.ColdSegment) Segment {
	s := Segment{
		Object: decodeObject(p.GetObject()), Next: p.GetNextOffset(),
		Size: p.GetSizeBytes(), IndexSize: p.GetIndexBytes(), CRC: p.GetCrc32C(),
		MaxTimestamp: p.GetMaxTimestamp(), MaxTimestampOffset: p.GetMaxTimestampOffset(),
		LastAppendMs: p.GetLastAppendMs(), UploadedMs: p.GetUploadedAtMs(), Gaps: p.GetGaps(),
	}
	for _, e := range p.GetEpochs() {
		s.Epochs = append(s.Epochs, Epoch{Term: e.GetTerm(), Start: e.GetStartOffset()})
	}
	return s
}
