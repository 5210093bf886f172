package journal

import (
	"sort"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// Swap is the record that puts segments in the place of sealed ones with the same
// offsets.
func Swap(segments []Segment) Record {
	swap := &persistv1.JournalSwap{}
	for _, s := range segments {
		swap.Segments = append(swap.Segments, s.Proto())
	}
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_Swap{Swap: swap}}
}

// applySwap takes segments that cover just the offsets of some sealed ones, below
// the first index: their batches have no indexes any more.
func (t *Table) applySwap(p *persistv1.JournalSwap) error {
	if len(p.GetSegments()) == 0 || t.Cut != nil {
		return damaged("a swap of nothing, or within a cut")
	}
	var in []Segment
	for _, s := range p.GetSegments() {
		in = append(in, segmentOf(s))
	}
	base, next := in[0].Base, in[len(in)-1].NextOffset
	from := sort.Search(len(t.Segments), func(i int) bool { return t.Segments[i].Base >= base })
	to := sort.Search(len(t.Segments), func(i int) bool { return t.Segments[i].Base >= next })
	if from >= to || to == len(t.Segments) || t.Segments[from].Base != base || t.Segments[to].Base != next {
		return damaged("a swap of offsets %d to %d, which are no sealed segments", base, next)
	}
	out := t.Segments[from:to]
	if t.Segments[to].FirstIndex > t.FirstIndex || in[0].FirstIndex != out[0].FirstIndex || in[len(in)-1].NextIndex > t.Segments[to].FirstIndex {
		return damaged("a swap of offsets %d to %d above the first index %d", base, next, t.FirstIndex)
	}
	for i, s := range in {
		if err := s.check(true); err != nil {
			return err
		}
		if i > 0 && (s.Base != in[i-1].NextOffset || s.FirstIndex < in[i-1].NextIndex) {
			return damaged("swapped segment %d does not follow %d", s.Base, in[i-1].Base)
		}
	}
	// Copied: readers may hold the slice.
	segments := append([]Segment(nil), t.Segments[:from]...)
	t.Segments = append(append(segments, in...), t.Segments[to:]...)
	return nil
}

// SegmentOfOffset is the segment that holds an offset, if there is one.
func (t *Table) SegmentOfOffset(offset int64) (Segment, bool) {
	i := sort.Search(len(t.Segments), func(i int) bool { return t.Segments[i].Base > offset })
	if i == 0 || offset >= t.Segments[i-1].NextOffset {
		return Segment{}, false
	}
	return t.Segments[i-1], true
}
