package journal

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// Record is one of the journal.
type Record = *persistv1.JournalRecord

func segmentOf(p *persistv1.JournalSegment) Segment {
	return Segment{
		Base: p.GetBase(), FirstIndex: p.GetFirstIndex(),
		Size: p.GetSize(), NextOffset: p.GetNextOffset(), NextIndex: p.GetNextIndex(),
		MaxTimestamp: p.GetMaxTimestamp(), MaxTimestampOffset: p.GetMaxTimestampOffset(),
		FirstAppendMs: p.GetFirstAppendMs(), LastAppendMs: p.GetLastAppendMs(),
		Generation: p.GetGeneration(), CleanTo: p.GetCleanTo(), HorizonMs: p.GetHorizonMs(),
	}
}

// Proto is the segment as it is written.
func (s Segment) Proto() *persistv1.JournalSegment {
	return &persistv1.JournalSegment{
		Base: s.Base, FirstIndex: s.FirstIndex,
		Size: s.Size, NextOffset: s.NextOffset, NextIndex: s.NextIndex,
		MaxTimestamp: s.MaxTimestamp, MaxTimestampOffset: s.MaxTimestampOffset,
		FirstAppendMs: s.FirstAppendMs, LastAppendMs: s.LastAppendMs,
		Generation: s.Generation, CleanTo: s.CleanTo, HorizonMs: s.HorizonMs,
	}
}

// HardState is the record of a term and vote.
func HardState(hs *raftpb.HardState) Record {
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_HardState{HardState: &persistv1.JournalHardState{
		Term: hs.GetTerm(), Vote: hs.GetVote(), Commit: hs.GetCommit(),
	}}}
}

// EntryRecord is the record of an entry that is no batch; offset is that of the
// next batch.
func EntryRecord(e *raftpb.Entry, offset int64) Record {
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_Entry{Entry: &persistv1.JournalEntry{
		Index: e.GetIndex(), Term: e.GetTerm(), Type: uint32(e.GetType()), Data: e.GetData(), Offset: offset,
	}}}
}

// SegmentStart is the record that seals a segment and starts the next one.
func SegmentStart(sealed Segment, firstIndex uint64) Record {
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_SegmentStart{SegmentStart: &persistv1.JournalSegmentStart{
		Sealed: sealed.Proto(), FirstIndex: firstIndex,
	}}}
}

// CutBegin is the record that begins a cut.
func CutBegin(c Cut) Record {
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_CutBegin{CutBegin: &persistv1.JournalCutBegin{
		Index: c.Index, Base: c.Base, Position: c.Position, NextOffset: c.NextOffset,
	}}}
}

// CutDone is the record that ends a cut, with the end of what is left.
func CutDone(end Segment) Record {
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_CutDone{CutDone: &persistv1.JournalCutDone{End: end.Proto()}}}
}

// Point is the record of the state at an applied index, of the first index that
// the log has then, and the base of its first segment.
func Point(applied uint64, cs *raftpb.ConfState, state []byte, firstIndex uint64, start int64) (Record, error) {
	conf, err := proto.Marshal(cs)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_Point{Point: &persistv1.JournalPoint{
		Applied: applied, ConfState: conf, State: state, FirstIndex: firstIndex, Start: start,
	}}}, nil
}

// Checkpoint is the record of the active segment's end, synced and cut to size.
func Checkpoint(end Segment) Record {
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_Checkpoint{Checkpoint: &persistv1.JournalCheckpoint{End: end.Proto()}}}
}

// tables is the first record of a file.
func (t *Table) tables() Record {
	p := &persistv1.JournalTables{FirstIndex: t.FirstIndex, Checkpoint: t.Checkpoint}
	for _, s := range t.Spans {
		p.Spans = append(p.Spans, s.Proto())
	}
	for _, s := range t.Segments {
		p.Segments = append(p.Segments, s.Proto())
	}
	return &persistv1.JournalRecord{Kind: &persistv1.JournalRecord_Tables{Tables: p}}
}

// Proto is the span as it is written.
func (s Span) Proto() *persistv1.JournalSpan {
	return &persistv1.JournalSpan{Term: s.Term, FirstIndex: s.FirstIndex, StartOffset: s.StartOffset}
}

// Records gives the records that fold to t. The last one is no checkpoint, so
// the file does not look like a clean stop. No cut may be under way.
func (t *Table) Records() ([]Record, error) {
	if t.Cut != nil {
		return nil, fmt.Errorf("journal compacted within a cut at %d", t.Cut.Index)
	}
	records := []Record{t.tables()}
	// Entries repeat the spans that begin with them; those before are in the
	// tables. Hence the tables hold the spans that begin below FirstIndex only.
	tables := records[0].GetTables()
	for n := len(tables.Spans); n > 0 && tables.Spans[n-1].GetFirstIndex() >= t.FirstIndex; n-- {
		tables.Spans = tables.Spans[:n-1]
	}
	point, err := Point(t.Applied, t.ConfState, t.State, t.FirstIndex, t.Segments[0].Base)
	if err != nil {
		return nil, err
	}
	records = append(records, point, HardState(t.Hard))
	for _, e := range t.Entries {
		records = append(records, EntryRecord(e.Entry, e.Offset))
	}
	return records, nil
}
