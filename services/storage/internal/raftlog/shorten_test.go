package raftlog_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// others writes entries that are no batch, and commits them.
func (w *world) others(n int) {
	var out raftlog.Write
	for i := range n {
		out.Entries = append(out.Entries, other(w.model.last()+1+uint64(i), w.model.term(w.model.last()), raftpb.EntryNormal, []byte("\x01command")))
		out.Payloads = append(out.Payloads, nil)
	}
	out.Commit = w.model.last() + uint64(n)
	w.check(w.log.Write(out))
	w.model.write(out)
}

// batches writes batches, and commits them.
func (w *world) batches(n int) {
	var out raftlog.Write
	next, term := w.model.next(), w.model.term(w.model.last())
	for i := range n {
		b := batch(w.t, next, int32(term), make([]byte, 50), w.now)
		next++
		out.Entries = append(out.Entries, entryOf(w.model.last()+1+uint64(i), term, b))
		out.Payloads = append(out.Payloads, b)
	}
	out.Commit = w.model.last() + uint64(n)
	w.check(w.log.Write(out))
	w.model.write(out)
}

func (w *world) shorten(keep int, needed uint64) bool {
	p := raftlog.Point{Applied: w.model.commit, ConfState: confState(1)}
	shortened, err := w.log.Shorten(p, keep, needed)
	w.check(err)
	if shortened {
		w.model.point = p
		w.dropped()
	}
	return shortened
}

// The entries that are no batch stay few whatever comes: beside batches, in a log
// that never had any, and in a segment that was begun for their sake. Nothing else
// of the log changes.
func TestEntriesThatAreNoBatchStayFew(t *testing.T) {
	const keep = 10
	for name, round := range map[string]func(w *world, i int){
		"alone": func(w *world, _ int) { w.others(3) },
		"beside batches": func(w *world, _ int) {
			w.others(3)
			w.batches(1)
		},
		"in turns": func(w *world, i int) {
			if i/20%2 == 0 {
				w.others(3)
			} else {
				w.batches(2)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.limits = raftlog.Limits{SegmentBytes: 1 << 20, SegmentMs: math.MaxInt64, IndexInterval: 1}
			for i := range 200 {
				round(w, i)
				w.shorten(keep, math.MaxUint64)
				require.LessOrEqual(t, w.log.JournalEntries(), 2*keep+3)
				if i%15 == 0 {
					w.check(w.model.compare(w.log))
				}
				if i%40 == 35 {
					w.reopen()
					w.check(w.model.compare(w.log))
				}
			}
			w.check(w.model.compare(w.log))
			require.Zero(t, w.log.StartOffset())
		})
	}
}

// What another replica needs stays.
func TestEntriesThatAreNeededStay(t *testing.T) {
	w := newWorld(t, 1)
	w.others(100)
	require.False(t, w.shorten(10, 2))
	require.Equal(t, 100, w.log.JournalEntries())
	require.True(t, w.shorten(10, 50))
	first, err := w.log.FirstIndex()
	require.NoError(t, err)
	require.Equal(t, uint64(50), first)
	w.batches(1)
	w.others(40)
	require.False(t, w.shorten(10, 50))
	require.True(t, w.shorten(10, math.MaxUint64))
	w.check(w.model.compare(w.log))
}

// A segment that begins later than it was begun has an index that counts from
// there.
func TestIndexOfASegmentThatBeginsLater(t *testing.T) {
	w := newWorld(t, 1)
	w.limits = raftlog.Limits{SegmentBytes: 1 << 20, SegmentMs: math.MaxInt64, IndexInterval: 1}
	w.others(20)
	w.batches(3)
	require.True(t, w.shorten(8, math.MaxUint64), "the segment with batches is sealed")
	w.others(20)
	require.True(t, w.shorten(8, math.MaxUint64), "the one without begins later")
	w.batches(30)
	w.check(w.model.compare(w.log))
	w.reopen()
	w.check(w.model.compare(w.log))
}
