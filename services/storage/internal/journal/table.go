package journal

import (
	"fmt"
	"math"
	"sort"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// Table is what the journal's records add up to.
type Table struct {
	// Hard is the term and vote; its commit index is a lower bound.
	Hard *raftpb.HardState

	// Applied, ConfState and State are those of the last point. ConfState is
	// the configuration at Applied.
	Applied   uint64
	ConfState *raftpb.ConfState
	State     []byte

	// FirstIndex is the first raft index that is still in the log.
	// FirstIndex <= Applied+1, and it is the FirstIndex of a segment. Segments
	// before that one came with a snapshot, were compacted, or had too many entries
	// that are no batch beside them: they have no entries for raft.
	FirstIndex uint64

	// Spans are the runs of entries of one term, ascending in term and index,
	// never descending in offset. The first covers FirstIndex-1 and the first
	// offset held.
	Spans []Span

	// Segments ascend and touch: each begins where the one before ends. The
	// last one is active; its end is live while the log is open.
	Segments []Segment

	// Entries are those that are no batch, from FirstIndex on, ascending.
	Entries []Entry

	// Checkpoint says that the active segment's end is known: it was once what
	// Segments says.
	Checkpoint bool

	// Clean says that the last record is a checkpoint.
	Clean bool

	// Cut is one that was begun and not done.
	Cut *Cut
}

// Span is a run of entries of one term.
type Span struct {
	Term        uint64
	FirstIndex  uint64
	StartOffset int64
}

// Segment is a segment file and where it ends.
type Segment struct {
	Base       int64
	FirstIndex uint64 // of the first entry after those of the segment before

	Size       int64
	NextOffset int64  // offsets in it are [Base, NextOffset)
	NextIndex  uint64 // of the first entry after the last batch

	MaxTimestamp       int64 // of all batches; -1: none
	MaxTimestampOffset int64 // base of the first batch that has it

	FirstAppendMs, LastAppendMs int64 // wall clock; 0: never

	// Generation counts how often compaction has written the segment anew. Above
	// 0 there may be gaps between batches, their indexes mean nothing, and the
	// segment lies below the table's FirstIndex.
	Generation uint32
	CleanTo    int64 // compaction has cleaned what is below it
	HorizonMs  int64 // latest horizon of its tombstones; 0: it has none
}

// Entry is a raft entry that is no batch.
type Entry struct {
	*raftpb.Entry
	// Offset is that of the next batch.
	Offset int64
}

// Cut removes all entries from Index on. What remains ends at Position of the
// segment with Base, before NextOffset.
type Cut struct {
	Index      uint64
	Base       int64
	Position   int64
	NextOffset int64
}

func (t *Table) started() bool { return len(t.Segments) > 0 }

// Active is the last segment.
func (t *Table) Active() *Segment { return &t.Segments[len(t.Segments)-1] }

// SpanOfIndex is the span that an index lies in, if it is not below the first.
func (t *Table) SpanOfIndex(index uint64) (Span, bool) {
	i := sort.Search(len(t.Spans), func(i int) bool { return t.Spans[i].FirstIndex > index })
	if i == 0 {
		return Span{}, false
	}
	return t.Spans[i-1], true
}

// LastTerm is the term of the last entry.
func (t *Table) LastTerm() uint64 { return t.Spans[len(t.Spans)-1].Term }

// SegmentOfIndex is the position of the segment that holds an index, or to which
// it would be added.
func (t *Table) SegmentOfIndex(index uint64) int {
	return max(0, sort.Search(len(t.Segments), func(i int) bool { return t.Segments[i].FirstIndex > index })-1)
}

// EntryAt is the position of the first of Entries with an index of at least
// index.
func (t *Table) EntryAt(index uint64) int {
	return sort.Search(len(t.Entries), func(i int) bool { return t.Entries[i].GetIndex() >= index })
}

// BatchIndex is the first index from the one given on that can be a batch's: it
// steps over the entries that are none.
func (t *Table) BatchIndex(index uint64) uint64 {
	for i := t.EntryAt(index); i < len(t.Entries) && t.Entries[i].GetIndex() == index; i++ {
		index++
	}
	return index
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Apply folds a record. The table is not to be used after an error.
func (t *Table) Apply(record *persistv1.JournalRecord) error {
	tables, isTables := record.GetKind().(*persistv1.JournalRecord_Tables)
	if isTables == t.started() {
		return damaged("tables are the first record and only that")
	}
	t.Clean = false
	switch kind := record.GetKind().(type) {
	case *persistv1.JournalRecord_Tables:
		return t.applyTables(tables.Tables)
	case *persistv1.JournalRecord_HardState:
		hs := kind.HardState
		t.Hard = &raftpb.HardState{Term: proto.Uint64(hs.GetTerm()), Vote: proto.Uint64(hs.GetVote()), Commit: proto.Uint64(hs.GetCommit())}
		return nil
	case *persistv1.JournalRecord_Entry:
		return t.applyEntry(kind.Entry)
	case *persistv1.JournalRecord_SegmentStart:
		return t.applySegmentStart(kind.SegmentStart)
	case *persistv1.JournalRecord_CutBegin:
		return t.applyCutBegin(kind.CutBegin)
	case *persistv1.JournalRecord_CutDone:
		return t.applyCutDone(kind.CutDone)
	case *persistv1.JournalRecord_Point:
		return t.applyPoint(kind.Point)
	case *persistv1.JournalRecord_Checkpoint:
		return t.applyCheckpoint(kind.Checkpoint)
	case *persistv1.JournalRecord_Swap:
		return t.applySwap(kind.Swap)
	default:
		return fmt.Errorf("%w: a record of a kind that is not known", ErrVersion)
	}
}

func (t *Table) applyTables(tables *persistv1.JournalTables) error {
	if len(tables.GetSegments()) == 0 || len(tables.GetSpans()) == 0 || tables.GetFirstIndex() == 0 {
		return damaged("empty tables")
	}
	t.FirstIndex = tables.GetFirstIndex()
	t.Checkpoint = tables.GetCheckpoint()
	for i, p := range tables.GetSegments() {
		s := segmentOf(p)
		last := i == len(tables.GetSegments())-1
		if err := s.check(!last || t.Checkpoint); err != nil {
			return err
		}
		if i > 0 {
			before := t.Segments[i-1]
			if s.Base != before.NextOffset || s.Base == before.Base || s.FirstIndex < before.NextIndex {
				return damaged("segment %d does not follow %d", s.Base, before.Base)
			}
		}
		t.Segments = append(t.Segments, s)
	}
	for _, p := range tables.GetSpans() {
		s := Span{Term: p.GetTerm(), FirstIndex: p.GetFirstIndex(), StartOffset: p.GetStartOffset()}
		if n := len(t.Spans); n > 0 {
			before := t.Spans[n-1]
			if s.Term <= before.Term || s.FirstIndex <= before.FirstIndex || s.StartOffset < before.StartOffset {
				return damaged("span of term %d does not follow %d", s.Term, before.Term)
			}
		}
		t.Spans = append(t.Spans, s)
	}
	if t.Spans[0].FirstIndex >= t.FirstIndex {
		return damaged("no term before index %d", t.FirstIndex)
	}
	return nil
}

// check says whether a segment makes sense; ends says whether it has an end.
func (s Segment) check(ends bool) error {
	ok := s.Base >= 0 && s.FirstIndex > 0
	if ends {
		ok = ok && s.Size >= 0 && s.NextOffset >= s.Base && s.NextIndex >= s.FirstIndex &&
			(s.Size == 0) == (s.NextOffset == s.Base)
	}
	if !ok {
		return damaged("segment %d makes no sense", s.Base)
	}
	return nil
}

func (t *Table) applyEntry(p *persistv1.JournalEntry) error {
	last := t.Spans[len(t.Spans)-1]
	after, offset := t.FirstIndex-1, t.Segments[0].Base
	if n := len(t.Entries); n > 0 {
		after, offset = t.Entries[n-1].GetIndex(), t.Entries[n-1].Offset
	}
	switch {
	case t.Cut != nil:
		return damaged("an entry within a cut")
	case p.GetIndex() <= after || p.GetOffset() < offset || p.GetOffset() < last.StartOffset || p.GetTerm() < last.Term:
		return damaged("entry %d of term %d at %d goes back", p.GetIndex(), p.GetTerm(), p.GetOffset())
	case p.GetType() > math.MaxInt32 || p.GetTerm() > math.MaxInt32:
		return damaged("entry %d: term or type out of range", p.GetIndex())
	}
	e := &raftpb.Entry{
		Index: proto.Uint64(p.GetIndex()),
		Term:  proto.Uint64(p.GetTerm()),
		Type:  raftpb.EntryType(p.GetType()).Enum(),
		Data:  p.GetData(),
	}
	t.Entries = append(t.Entries, Entry{Entry: e, Offset: p.GetOffset()})
	if p.GetTerm() > last.Term {
		t.Spans = append(t.Spans, Span{Term: p.GetTerm(), FirstIndex: p.GetIndex(), StartOffset: p.GetOffset()})
	}
	return nil
}

func (t *Table) applySegmentStart(p *persistv1.JournalSegmentStart) error {
	active := t.Active()
	sealed := segmentOf(p.GetSealed())
	if err := sealed.check(true); err != nil {
		return err
	}
	if t.Cut != nil || sealed.Base != active.Base || sealed.FirstIndex != active.FirstIndex || sealed.Size == 0 ||
		p.GetFirstIndex() < sealed.NextIndex {
		return damaged("segment start does not fit segment %d", active.Base)
	}
	*active = sealed
	t.Segments = append(t.Segments, newSegment(sealed.NextOffset, p.GetFirstIndex()))
	t.Checkpoint = true
	return nil
}

// newSegment is an empty one.
func newSegment(base int64, firstIndex uint64) Segment {
	return Segment{
		Base: base, FirstIndex: firstIndex, NextOffset: base, NextIndex: firstIndex,
		MaxTimestamp: -1, MaxTimestampOffset: -1,
	}
}

func (t *Table) applyCutBegin(p *persistv1.JournalCutBegin) error {
	c := Cut{Index: p.GetIndex(), Base: p.GetBase(), Position: p.GetPosition(), NextOffset: p.GetNextOffset()}
	if c.Index < t.FirstIndex || c.Position < 0 {
		return damaged("cut at %d below the first index %d", c.Index, t.FirstIndex)
	}
	i := t.SegmentOfIndex(c.Index)
	target := &t.Segments[i]
	known := i < len(t.Segments)-1 || t.Checkpoint
	if target.Base != c.Base || c.NextOffset < c.Base || known && i < len(t.Segments)-1 && c.Position > target.Size {
		return damaged("cut at %d does not fit segment %d", c.Index, target.Base)
	}
	t.Segments = t.Segments[:i+1]
	t.Checkpoint = known && c.Position >= target.Size
	// Copied: readers may hold the slice, and what is appended next must not
	// overwrite what they see.
	t.Entries = append([]Entry(nil), t.Entries[:t.EntryAt(c.Index)]...)
	n := sort.Search(len(t.Spans), func(i int) bool { return t.Spans[i].FirstIndex >= c.Index })
	if n == 0 {
		return damaged("cut at %d leaves no term", c.Index)
	}
	t.Spans = append([]Span(nil), t.Spans[:n]...)
	t.Cut = &c
	return nil
}

func (t *Table) applyCutDone(p *persistv1.JournalCutDone) error {
	end := segmentOf(p.GetEnd())
	active := t.Active()
	if err := end.check(true); err != nil {
		return err
	}
	if t.Cut == nil || end.Base != active.Base || end.FirstIndex != active.FirstIndex {
		return damaged("a cut ends that was not begun")
	}
	*active = end
	t.Checkpoint = true
	t.Cut = nil
	return nil
}

func (t *Table) applyPoint(p *persistv1.JournalPoint) error {
	var cs raftpb.ConfState
	if err := proto.Unmarshal(p.GetConfState(), &cs); err != nil {
		return damaged("point at %d: %v", p.GetApplied(), err)
	}
	first := p.GetFirstIndex()
	if p.GetApplied() < t.Applied || first < t.FirstIndex || first > p.GetApplied()+1 {
		return damaged("point at %d goes back", p.GetApplied())
	}
	t.Applied, t.ConfState, t.State = p.GetApplied(), &cs, p.GetState()
	i := sort.Search(len(t.Segments), func(i int) bool { return t.Segments[i].Base >= p.GetStart() })
	if i == len(t.Segments) || t.Segments[i].Base != p.GetStart() || t.Segments[i].FirstIndex > first {
		return damaged("a log from index %d and offset %d on has no such segment", first, p.GetStart())
	}
	if i == 0 && first == t.FirstIndex {
		return nil
	}
	at := t.SegmentOfIndex(first)
	inside := t.Segments[at].FirstIndex != first
	if inside && (at < len(t.Segments)-1 || t.Active().Size > 0) {
		return damaged("first index %d is in the middle of segment %d", first, t.Segments[at].Base)
	}
	t.FirstIndex = first
	t.Segments = append([]Segment(nil), t.Segments[i:]...)
	if inside {
		// It has no batches yet, so it may as well begin here.
		t.Active().FirstIndex, t.Active().NextIndex = first, first
	}
	t.Entries = append([]Entry(nil), t.Entries[t.EntryAt(first):]...)
	if len(t.Entries) > 0 && t.Entries[0].Offset < p.GetStart() {
		return damaged("entry %d at %d is kept by a log from offset %d on", t.Entries[0].GetIndex(), t.Entries[0].Offset, p.GetStart())
	}
	t.trimSpans()
	return nil
}

// trimSpans drops the spans that neither an entry from FirstIndex-1 on nor an
// offset held lies in.
func (t *Table) trimSpans() {
	i := 0
	for i+1 < len(t.Spans) && t.Spans[i+1].FirstIndex < t.FirstIndex && t.Spans[i+1].StartOffset <= t.Segments[0].Base {
		i++
	}
	t.Spans = append([]Span(nil), t.Spans[i:]...)
}

func (t *Table) applyCheckpoint(p *persistv1.JournalCheckpoint) error {
	end := segmentOf(p.GetEnd())
	active := t.Active()
	if err := end.check(true); err != nil {
		return err
	}
	if t.Cut != nil || end.Base != active.Base || end.FirstIndex != active.FirstIndex {
		return damaged("checkpoint does not fit segment %d", active.Base)
	}
	*active = end
	t.Checkpoint, t.Clean = true, true
	return nil
}
