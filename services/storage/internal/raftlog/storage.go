package raftlog

import (
	"errors"
	"io"
	"math/bits"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// InitialState is raft.Storage's. The configuration is that at the applied index
// of the last point, which raft must be given with it. Owner only.
func (l *Log) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	t := l.table()
	hard := &raftpb.HardState{Term: new(t.Hard.GetTerm()), Vote: new(t.Hard.GetVote()), Commit: new(l.commit)}
	return hard, proto.CloneOf(t.ConfState), nil
}

// FirstIndex is raft.Storage's. Owner only.
func (l *Log) FirstIndex() (uint64, error) { return l.table().FirstIndex, nil }

// LastIndex is raft.Storage's. Owner only.
func (l *Log) LastIndex() (uint64, error) { return l.view.lastIndex, nil }

// Term is raft.Storage's. Owner only.
func (l *Log) Term(index uint64) (uint64, error) {
	switch {
	case index+1 < l.table().FirstIndex:
		return 0, raft.ErrCompacted
	case index > l.view.lastIndex:
		return 0, raft.ErrUnavailable
	}
	span, ok := l.table().SpanOfIndex(index)
	if !ok {
		return 0, raft.ErrCompacted
	}
	return span.Term, nil
}

// Entries is raft.Storage's. The data of a batch is its header. Owner only.
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	switch {
	case lo < l.table().FirstIndex:
		return nil, raft.ErrCompacted
	case hi > l.view.lastIndex+1 || lo > hi:
		return nil, raft.ErrUnavailable
	case lo == hi:
		return nil, nil
	}
	take := taker{want: hi - lo, left: maxSize}
	recent := l.recent.from(lo)
	if recent == nil {
		if err := l.entriesFromDisk(lo, hi, &take); err != nil {
			return nil, err
		}
		recent = l.recent.from(lo + uint64(len(take.entries)))
	}
	for _, e := range recent {
		if !take.add(e.Entry) {
			break
		}
	}
	return take.entries, nil
}

// taker collects entries up to a number and a size, at least one.
type taker struct {
	entries    []*raftpb.Entry
	want, left uint64
	full       bool
}

func (t *taker) add(e *raftpb.Entry) bool {
	size := entrySize(e)
	if t.full || uint64(len(t.entries)) == t.want || len(t.entries) > 0 && size > t.left {
		t.full = true
		return false
	}
	if t.entries == nil {
		t.entries = make([]*raftpb.Entry, 0, min(t.want, 64))
	}
	t.left -= min(size, t.left)
	t.entries = append(t.entries, e)
	return true
}

// entrySize is proto.Size of an entry with all of its fields.
func entrySize(e *raftpb.Entry) uint64 {
	data := uint64(len(e.GetData()))
	return 2 + 1 + varintSize(e.GetTerm()) + 1 + varintSize(e.GetIndex()) + 1 + varintSize(data) + data
}

func varintSize(v uint64) uint64 { return uint64(bits.Len64(v|1)+6) / 7 }

// entriesFromDisk takes entries from lo on, until the recent ones begin, merging
// the segments' batches and the journal's entries.
func (l *Log) entriesFromDisk(lo, hi uint64, take *taker) error {
	t := l.table()
	if !l.recent.empty() {
		hi = min(hi, max(lo, l.recent.first()))
	}
	i, at, err := l.place(lo)
	if err != nil {
		return l.readFailed(err)
	}
	next := lo // the index to be taken
	journaled := t.Entries[t.EntryAt(lo):]
	others := func(until uint64) bool {
		for ; len(journaled) > 0 && journaled[0].GetIndex() == next && next < until; next++ {
			if !take.add(journaled[0].Entry) {
				return false
			}
			journaled = journaled[1:]
		}
		return true
	}
	for ; i < len(t.Segments); i++ {
		more := true
		err := l.walkVerified(t.Segments[i], at, func(b segment.Batch) bool {
			if more = others(hi) && next < hi; !more {
				return false
			}
			more = take.add(batchEntry(next, uint64(b.Header.LeaderEpoch), b.Raw))
			next++
			return more
		})
		if err != nil || !more {
			return l.readFailed(err)
		}
		if i+1 < len(t.Segments) {
			at = startOf(t.Segments[i+1])
		}
	}
	others(hi)
	return nil
}

// walkVerified is segment.Walk over batches of which all has been verified: raft
// gives their headers to those who apply them.
func (l *Log) walkVerified(s journal.Segment, at segment.At, visit func(segment.Batch) bool) error {
	if at.Position >= s.Size {
		return nil
	}
	f, err := l.openLog(s.Base)
	if err != nil {
		return err
	}
	defer l.o.Files.release(f)
	var bad error
	_, err = segment.Walk(f, s.Size, at, func(b segment.Batch) bool {
		if bad = l.verifyBatch(f, s, b); bad != nil {
			return false
		}
		return visit(b)
	})
	return errors.Join(bad, err)
}

// verifyBatch checks a batch's epoch, and its checksum unless that was done since
// the log was opened.
func (l *Log) verifyBatch(f io.ReaderAt, s journal.Segment, b segment.Batch) error {
	if b.Header.LeaderEpoch != epochAt(l.spansNow(), b.Offset) {
		return damagedAt(s, b.Position)
	}
	end := b.End().Position
	if l.reads.verified(s.Base, b.Position, end) {
		return nil
	}
	ok, err := segment.Checksum(f, b)
	if err != nil {
		return err
	}
	if !ok {
		return damagedAt(s, b.Position)
	}
	l.reads.verify(s.Base, b.Position, end)
	return nil
}

// batchEntry is the entry of a batch, whose header is copied.
func batchEntry(index, term uint64, header []byte) *raftpb.Entry {
	return &raftpb.Entry{
		Term:  new(term),
		Index: new(index),
		Type:  raftpb.EntryNormal.Enum(),
		Data:  append([]byte(nil), header...),
	}
}

// OffsetAt is the offset of the next batch once index is applied. index may be
// one less than FirstIndex. Owner only.
func (l *Log) OffsetAt(index uint64) (int64, error) {
	t := l.table()
	switch {
	case index+1 < t.FirstIndex:
		return 0, raft.ErrCompacted
	case index >= l.view.lastIndex:
		return t.Active().NextOffset, nil
	}
	if recent := l.recent.from(index); recent != nil {
		return recent[0].next, nil
	}
	_, at, err := l.place(index + 1)
	return at.Offset, l.readFailed(err)
}

// Payload is the whole batch of an entry, its checksum verified; nil for an
// entry that is no batch. Owner only.
func (l *Log) Payload(index uint64) ([]byte, error) {
	t := l.table()
	switch {
	case index < t.FirstIndex:
		return nil, raft.ErrCompacted
	case index > l.view.lastIndex:
		return nil, raft.ErrUnavailable
	}
	base, position, size := int64(0), int64(0), int64(0)
	if recent := l.recent.from(index); recent != nil {
		base, position, size = recent[0].base, recent[0].position, recent[0].size
		if size == 0 {
			return nil, nil
		}
	} else {
		if t.BatchIndex(index) != index {
			return nil, nil
		}
		i, at, err := l.place(index)
		if err != nil {
			return nil, l.readFailed(err)
		}
		base, position = t.Segments[i].Base, at.Position
	}
	batch, err := l.readBatch(base, position, size)
	return batch, l.readFailed(err)
}
