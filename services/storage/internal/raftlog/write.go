package raftlog

import (
	"bytes"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// Write is what one Ready of raft asks to be made durable.
type Write struct {
	// HardState is nil or empty if it has not changed.
	HardState *raftpb.HardState
	// Entries follow the last one, or replace all from the first's index on.
	// The log keeps them for a while; they must not change any more.
	Entries []*raftpb.Entry
	// Payloads is parallel to Entries: the whole batch, or nil for an entry that
	// is none. Offset and epoch of its header are not looked at; those of the
	// entry's data are written. It is read and not kept.
	Payloads [][]byte
	// Commit is the largest index known to be committed. It is written down and
	// not synced.
	Commit uint64
	// MayDefer lets batches be durable only after a later Write without it, or
	// whatever else is written to the journal. Entries that are no batch, term and
	// vote never wait.
	MayDefer bool
}

// IsBatch says whether an entry is a record batch, of which its data is the
// header: such an entry lives in a segment, any other in the journal.
func IsBatch(e *raftpb.Entry) bool {
	data := e.GetData()
	return e.GetType() == raftpb.EntryNormal && len(data) == segment.HeaderSize && data[0] == 0
}

// Write makes w durable. What it refuses with ErrInvalid it has not begun; any
// other error poisons the log. Owner only.
//
// Entries that are no batch are durable before batches after them are written,
// since without them nobody knows the term of those; and the other way round,
// so that an entry in the journal proves that all batches before it were
// durable once.
func (l *Log) Write(w Write) error {
	if err := l.ready(); err != nil {
		return err
	}
	if err := l.check(w); err != nil {
		return err
	}
	return l.fail(l.write(w))
}

// check refuses what would make the log contradict itself.
func (l *Log) check(w Write) error {
	if len(w.Entries) == 0 {
		return nil
	}
	first := w.Entries[0].GetIndex()
	if first < l.table().FirstIndex || first <= l.commit || first > l.view.lastIndex+1 {
		return invalid("entry %d in a log of %d to %d, committed up to %d", first, l.table().FirstIndex, l.view.lastIndex, l.commit)
	}
	if len(w.Payloads) != len(w.Entries) {
		return invalid("%d payloads for %d entries", len(w.Payloads), len(w.Entries))
	}
	term, err := l.Term(first - 1)
	if err != nil {
		return err
	}
	offset, err := l.OffsetAt(first - 1)
	if err != nil {
		return l.fail(err)
	}
	for i, e := range w.Entries {
		if e.GetIndex() != first+uint64(i) || e.GetTerm() < term || e.GetTerm() > math.MaxInt32 {
			return invalid("entry %d of term %d after term %d", e.GetIndex(), e.GetTerm(), term)
		}
		if !IsBatch(e) {
			if w.Payloads[i] != nil {
				return invalid("entry %d is no batch and has a payload", e.GetIndex())
			}
			term = e.GetTerm()
			continue
		}
		if offset, err = checkBatch(e, w.Payloads[i], term, offset); err != nil {
			return err
		}
	}
	return nil
}

// checkBatch refuses a batch that is not the next one. Its checksum is not
// looked at: whoever got the batch from outside has checked it.
func checkBatch(e *raftpb.Entry, payload []byte, term uint64, offset int64) (next int64, err error) {
	h, err := recordbatch.ParseHeader(e.GetData())
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: batch %d: %w", ErrInvalid, e.GetIndex(), err)
	case e.GetTerm() != term:
		return 0, invalid("batch %d begins term %d", e.GetIndex(), e.GetTerm())
	case uint64(h.LeaderEpoch) != term:
		return 0, invalid("batch %d has epoch %d in term %d", e.GetIndex(), h.LeaderEpoch, term)
	case h.BaseOffset != offset:
		return 0, invalid("batch %d at offset %d, next is %d", e.GetIndex(), h.BaseOffset, offset)
	case h.Size() != len(payload) || !sameBatch(e.GetData(), payload):
		return 0, invalid("batch %d has another payload", e.GetIndex())
	}
	return h.NextOffset(), nil
}

// sameBatch says whether two headers are of one batch, whatever has been stamped
// into them: base offset and leader epoch.
func sameBatch(a, b []byte) bool {
	return bytes.Equal(a[8:12], b[8:12]) && bytes.Equal(a[16:segment.HeaderSize], b[16:segment.HeaderSize])
}

func (l *Log) write(w Write) error {
	var pending []journal.Record
	if hs := w.HardState; !raft.IsEmptyHardState(hs) {
		known := l.table().Hard
		if hs.GetTerm() != known.GetTerm() || hs.GetVote() != known.GetVote() {
			pending = append(pending, journal.HardState(hs))
		}
		w.Commit = max(w.Commit, hs.GetCommit())
	}
	if len(w.Entries) > 0 && w.Entries[0].GetIndex() <= l.view.lastIndex {
		if err := l.cut(w.Entries[0].GetIndex(), pending); err != nil {
			return err
		}
		pending = pending[:0]
	}
	before := *l.active()
	for i := 0; i < len(w.Entries); {
		if e := w.Entries[i]; !IsBatch(e) {
			pending = append(pending, journal.EntryRecord(e, l.active().NextOffset))
			l.recent.add(recentEntry{Entry: e, base: before.Base, next: l.active().NextOffset})
			i++
			continue
		}
		if err := l.append(pending...); err != nil {
			return err
		}
		pending = pending[:0]
		n, err := l.appendRun(w.Entries[i:], w.Payloads[i:], w.MayDefer)
		if err != nil {
			return err
		}
		i += n
	}
	if err := l.append(pending...); err != nil {
		return err
	}
	committed := min(max(l.commit, w.Commit), l.view.lastIndex)
	if a := l.active(); committed == l.commit && a.Base == before.Base && a.Size == before.Size {
		return nil
	}
	l.commit = committed
	return l.note()
}

// appendRun writes as many batches as come one after the other and fit into one
// segment, with one write and, unless it may be deferred, one sync.
func (l *Log) appendRun(entries []*raftpb.Entry, payloads [][]byte, mayDefer bool) (n int, err error) {
	limits, now := l.o.Limits(), l.o.Now().UnixMilli()
	if l.full(limits, now, int64(len(payloads[0])), entries[0].GetIndex()) {
		if err := l.roll(entries[0].GetIndex()); err != nil {
			return 0, err
		}
	}
	if err := l.wake(); err != nil {
		return 0, err
	}
	if err := l.loadIndex(); err != nil {
		return 0, err
	}
	a := *l.active()
	size := int64(0)
	for n < len(entries) && IsBatch(entries[n]) {
		next := int64(len(payloads[n]))
		if a.Size+size > 0 && a.Size+size+next > limits.SegmentBytes {
			break
		}
		size += next
		n++
	}
	l.payloads = l.payloads[:0]
	for i, e := range entries[:n] {
		l.payloads = append(l.payloads, e.GetData(), payloads[i][segment.HeaderSize:])
	}
	err = l.writer.Append(l.payloads, size)
	clear(l.payloads)
	if err == nil && !mayDefer {
		err = l.writer.Sync()
	}
	if err != nil {
		return 0, err
	}
	waiting := 0
	for _, e := range entries[:n] {
		w, err := l.count(&a, e)
		if err != nil {
			return 0, err
		}
		waiting = max(waiting, w)
	}
	if a.FirstAppendMs == 0 {
		a.FirstAppendMs = now
	}
	a.LastAppendMs = now
	l.publish(a)
	if waiting >= indexFlush {
		err = l.flushIndex(false)
	}
	return n, err
}

// count adds a batch to the end of the active segment and says how many index
// entries wait.
func (l *Log) count(a *journal.Segment, e *raftpb.Entry) (waiting int, err error) {
	h, err := recordbatch.ParseHeader(e.GetData())
	if err != nil {
		return 0, err
	}
	b := segment.Batch{At: segment.At{Position: a.Size, Offset: a.NextOffset, Index: e.GetIndex()}, Header: h}
	if entry, due := l.tail.builder.Add(b); due {
		waiting = l.tail.add(entry)
	}
	end := b.End()
	l.recent.add(recentEntry{Entry: e, base: a.Base, position: a.Size, size: b.Size(), next: end.Offset})
	a.Size, a.NextOffset, a.NextIndex = end.Position, end.Offset, end.Index
	a.MaxTimestamp, a.MaxTimestampOffset = l.tail.builder.Max()
	return waiting, nil
}

// publish shows readers the active segment's new end.
func (l *Log) publish(a journal.Segment) {
	l.view.Lock()
	defer l.view.Unlock()
	*l.view.table.Active() = a
	l.view.lastIndex = max(l.view.lastIndex, a.NextIndex-1)
}
