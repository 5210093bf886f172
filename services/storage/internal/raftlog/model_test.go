package raftlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// model is the slow and obvious log: a slice.
type model struct {
	entries []modelEntry // from index 1 on, the first of which stands for the snapshot
	hard    *raftpb.HardState
	commit  uint64 // as the log knows it
	known   uint64 // the most that it ever knew; a note may be torn and an older one come back
	point   raftlog.Point
	first   uint64 // first index
	start   int64  // first offset held
}

type modelEntry struct {
	entry   *raftpb.Entry
	payload []byte
	next    int64 // offset after it
}

func newModel(cs *raftpb.ConfState) *model {
	return &model{
		entries: []modelEntry{{entry: other(1, 1, raftpb.EntryNormal, nil)}},
		hard:    &raftpb.HardState{Term: new(uint64(1)), Vote: new(uint64(0))},
		commit:  1,
		known:   1,
		point:   raftlog.Point{Applied: 1, ConfState: cs},
		first:   2,
	}
}

func (m *model) clone() *model {
	c := *m
	c.entries = slices.Clone(m.entries)
	return &c
}

func (m *model) last() uint64             { return uint64(len(m.entries)) }
func (m *model) at(i uint64) modelEntry   { return m.entries[i-1] }
func (m *model) next() int64              { return m.at(m.last()).next }
func (m *model) term(index uint64) uint64 { return m.at(index).entry.GetTerm() }

// write applies what Write is told.
func (m *model) write(w raftlog.Write) {
	if w.HardState != nil {
		m.hard = w.HardState
	}
	for i, e := range w.Entries {
		m.entries = m.entries[:e.GetIndex()-1]
		x := modelEntry{entry: e, payload: w.Payloads[i], next: m.next()}
		if x.payload != nil {
			h, _ := recordbatch.ParseHeader(x.payload)
			x.next = h.NextOffset()
		}
		m.entries = append(m.entries, x)
	}
	m.commit = min(max(m.commit, w.Commit), m.last())
	m.known = max(m.known, m.commit)
}

// compare says how a log differs from the model.
func (m *model) compare(l *raftlog.Log) error {
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if first != m.first || last != m.last() {
		return fmt.Errorf("log is [%d, %d], expected [%d, %d]", first, last, m.first, m.last())
	}
	if l.NextOffset() != m.next() || l.StartOffset() != m.start || l.LastOffset() != m.next()-1 {
		return fmt.Errorf("offsets [%d, %d), expected [%d, %d)", l.StartOffset(), l.NextOffset(), m.start, m.next())
	}
	hard, cs, err := l.InitialState()
	if err != nil || hard.GetTerm() != m.hard.GetTerm() || hard.GetVote() != m.hard.GetVote() || hard.GetCommit() != m.commit {
		return fmt.Errorf("hard state %v, expected %v with commit %d: %w", hard, m.hard, m.commit, err)
	}
	if r := l.Recovered(); r.Applied > m.point.Applied {
		return fmt.Errorf("applied %d, expected %d", r.Applied, m.point.Applied)
	}
	if !proto.Equal(cs, m.point.ConfState) {
		return fmt.Errorf("configuration %v, expected %v", cs, m.point.ConfState)
	}
	if err := m.compareEntries(l); err != nil {
		return err
	}
	if err := m.compareReads(l); err != nil {
		return err
	}
	return m.compareEpochs(l)
}

func (m *model) compareEntries(l *raftlog.Log) error {
	if _, err := l.Entries(m.first-1, m.first, 1); !errors.Is(err, raft.ErrCompacted) {
		return fmt.Errorf("entries below the first index: %w", err)
	}
	got, err := l.Entries(m.first, m.last()+1, 1<<30)
	if err != nil || uint64(len(got)) != m.last()+1-m.first {
		return fmt.Errorf("%d entries, expected %d: %w", len(got), m.last()+1-m.first, err)
	}
	for i := m.first - 1; i <= m.last(); i++ {
		want := m.at(i)
		if term, err := l.Term(i); err != nil || term != want.entry.GetTerm() {
			return fmt.Errorf("term of %d is %d, expected %d: %w", i, term, want.entry.GetTerm(), err)
		}
		if next, err := l.OffsetAt(i); err != nil || next != want.next {
			return fmt.Errorf("offset after %d is %d, expected %d: %w", i, next, want.next, err)
		}
		if i < m.first {
			continue
		}
		if e := got[i-m.first]; !sameEntry(e, want.entry) {
			return fmt.Errorf("entry %v, expected %v", e, want.entry)
		}
		if some, err := l.Entries(i, m.last()+1, 1); err != nil || len(some) != 1 || !sameEntry(some[0], want.entry) {
			return fmt.Errorf("one entry %v, expected %v: %w", some, want.entry, err)
		}
		if payload, err := l.Payload(i); err != nil || !bytes.Equal(payload, want.payload) || (payload == nil) != (want.payload == nil) {
			return fmt.Errorf("payload of %d differs: %w", i, err)
		}
	}
	return nil
}

func sameEntry(a, b *raftpb.Entry) bool {
	return a.GetIndex() == b.GetIndex() && a.GetTerm() == b.GetTerm() && a.GetType() == b.GetType() && bytes.Equal(a.GetData(), b.GetData())
}

// batches are those that are held, with their entries.
func (m *model) batches() (held []modelEntry) {
	for _, e := range m.entries {
		if h, err := recordbatch.ParseHeader(e.payload); err == nil && h.BaseOffset >= m.start {
			held = append(held, e)
		}
	}
	return held
}

func (m *model) compareReads(l *raftlog.Log) error {
	var all []byte
	held := m.batches()
	for _, e := range held {
		all = append(all, e.payload...)
	}
	// From one end to the other in small steps, and from each batch.
	var got []byte
	for at := m.start; at < m.next(); {
		c, err := l.Read(at, m.next(), 200)
		if err != nil || c.Next <= at {
			return fmt.Errorf("read at %d leads to %d: %w", at, c.Next, err)
		}
		got = append(got, c.Bytes...)
		at = c.Next
	}
	if !bytes.Equal(got, all) {
		return fmt.Errorf("read %d bytes that differ from the %d expected", len(got), len(all))
	}
	largest, at := int64(-1), int64(0)
	for _, e := range held {
		h, _ := recordbatch.ParseHeader(e.payload)
		c, err := l.Read(h.LastOffset(), h.LastOffset()+1, 1)
		if err != nil || !bytes.Equal(c.Bytes, e.payload) {
			return fmt.Errorf("read of the batch at %d: %w", h.BaseOffset, err)
		}
		for r, err := range recordbatch.Records(e.payload, recordbatch.Limits{}) {
			if err != nil {
				return err
			}
			if r.Timestamp > largest {
				largest, at = r.Timestamp, r.Offset
				offset, ts, ok, err := l.FindTimestamp(r.Timestamp, m.next())
				if !ok || offset != at || ts != largest {
					return fmt.Errorf("timestamp %d found at %d (%v), expected at %d: %w", largest, offset, ok, at, err)
				}
				offset, ts, ok, err = l.MaxTimestamp(r.Offset + 1)
				if bound, _ := maxBelow(held, r.Offset+1); !ok || ts != bound {
					return fmt.Errorf("largest timestamp below %d is %d at %d (%v), expected %d: %w", r.Offset+1, ts, offset, ok, bound, err)
				}
			}
		}
	}
	if _, err := l.Read(m.next()+1, m.next()+2, 1); err == nil {
		return fmt.Errorf("read past the end")
	}
	offset, ts, ok, err := l.MaxTimestamp(m.next())
	if err != nil || ok != (largest >= 0) || ok && (ts != largest || offset != at) {
		return fmt.Errorf("largest timestamp %d at %d (%v), expected %d at %d: %w", ts, offset, ok, largest, at, err)
	}
	_, _, ok, err = l.FindTimestamp(largest+1, m.next())
	if ok || err != nil {
		return fmt.Errorf("a timestamp above the largest is found: %w", err)
	}
	return nil
}

// maxBelow is the largest timestamp of the batches with a base below bound.
func maxBelow(held []modelEntry, bound int64) (largest, offset int64) {
	largest = -1
	for _, e := range held {
		if h, _ := recordbatch.ParseHeader(e.payload); h.BaseOffset < bound && h.MaxTimestamp > largest {
			largest, offset = h.MaxTimestamp, h.BaseOffset
		}
	}
	return largest, offset
}

func (m *model) compareEpochs(l *raftlog.Log) error {
	// Where the first that is known begins is what is said of those before it.
	if first, start := l.FirstEpoch(); first > 0 {
		if epoch, end := l.EpochEnd(first-1, m.next()); epoch != first-1 || end != start {
			return fmt.Errorf("epoch %d begins at %d, the one before ends as %d at %d", first, start, epoch, end)
		}
	}
	ends := map[int32]int64{}
	latest := int32(0)
	for _, e := range m.batches() {
		h, _ := recordbatch.ParseHeader(e.payload)
		if got := l.EpochAt(h.LastOffset()); got != h.LeaderEpoch {
			return fmt.Errorf("epoch at %d is %d, expected %d", h.LastOffset(), got, h.LeaderEpoch)
		}
		ends[h.LeaderEpoch] = h.NextOffset()
		latest = h.LeaderEpoch
	}
	for epoch, end := range ends {
		if epoch == latest {
			end = m.next()
		}
		if got, gotEnd := l.EpochEnd(epoch, m.next()); got != epoch || gotEnd != end {
			return fmt.Errorf("epoch %d ends as %d at %d, expected at %d", epoch, got, gotEnd, end)
		}
	}
	if got, end := l.EpochEnd(int32(m.term(m.last())+1), m.next()); got != -1 || end != -1 {
		return fmt.Errorf("an unknown epoch ends as %d at %d", got, end)
	}
	return nil
}

// adopt makes the model what a log holds after a crash, provided that this is a
// state that the crash may leave: before is what was acknowledged and w what was
// being written, if anything was. points may have become the last one.
// commitAtLeast is what the note must tell.
func (m *model) adopt(l *raftlog.Log, w *raftlog.Write, points []raftlog.Point, dropping bool, commitAtLeast uint64) error {
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	hard, cs, err := l.InitialState()
	if err != nil {
		return err
	}
	before := m.clone()
	candidates := []*model{before}
	if w != nil {
		candidates = nil
		// Nothing of it, or what was cut, and any prefix of the entries.
		for n := range len(w.Entries) + 1 {
			c := before.clone()
			part := *w
			part.Entries, part.Payloads = w.Entries[:n], w.Payloads[:n]
			c.write(part)
			if n == 0 && len(w.Entries) > 0 && w.Entries[0].GetIndex() <= before.last() {
				cut := c.clone()
				cut.entries = cut.entries[:w.Entries[0].GetIndex()-1]
				candidates = append(candidates, cut)
			}
			candidates = append(candidates, c)
		}
	}
	for _, c := range candidates {
		if c.last() != last {
			continue
		}
		for _, h := range []*raftpb.HardState{before.hard, c.hard} {
			if hard.GetTerm() != h.GetTerm() || hard.GetVote() != h.GetVote() {
				continue
			}
			c.hard = h
			most := before.known
			if w != nil {
				most = max(most, w.Commit)
			}
			if got := hard.GetCommit(); got > most || got < min(commitAtLeast, last) {
				return fmt.Errorf("commit index %d, expected %d to %d", got, commitAtLeast, most)
			}
			c.commit = hard.GetCommit()
			c.known = max(before.known, c.commit)
			for _, p := range points {
				if l.Recovered().Applied == p.Applied && proto.Equal(cs, p.ConfState) {
					c.point = p
				}
			}
			if dropping && (l.StartOffset() > c.start || first > c.first) {
				c.first, c.start = first, l.StartOffset()
			}
			if err := c.compare(l); err != nil {
				continue
			}
			*m = *c
			return nil
		}
	}
	errs := fmt.Errorf("no state that may be left: log [%d, %d], hard state %v, acknowledged up to %d, writing %v", first, last, hard, before.last(), w)
	for _, c := range candidates {
		errs = fmt.Errorf("%w\n  candidate up to %d: %w", errs, c.last(), c.compare(l))
	}
	return errs
}
