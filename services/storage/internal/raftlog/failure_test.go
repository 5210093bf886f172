package raftlog_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// An operation of the file system that fails poisons the log, whatever it was,
// and opening anew finds what was acknowledged.
func TestFailedOperationPoisons(t *testing.T) {
	failed := 0
	for seed := uint64(1); seed <= fewer(300, 60); seed++ {
		w := newWorld(t, seed)
		for range 10 {
			w.step()
		}
		w.failWith = syscall.ENOSPC
		w.dieAt, w.ops = 1+w.rng.IntN(12), 0
		out := w.someWrite()
		w.logf("write %s", describe(out))
		err := w.log.Write(out)
		w.dieAt = 0
		if err == nil {
			w.model.write(out)
			w.check(w.model.compare(w.log))
			continue
		}
		failed++
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorIs(t, err, raftlog.ErrFailed)
		for _, again := range []error{
			w.log.Write(raftlog.Write{Commit: w.model.commit}),
			w.log.WritePoint(w.somePoint()),
			w.log.Sleep(w.somePoint()),
		} {
			require.Equal(t, err, again, "the first error is the only one")
		}
		require.NoError(t, w.log.Close(nil), "closing a failed log has nothing to lose")
		w.dead, w.failWith = true, nil
		w.restart(&out, nil, false)
		if w.log != nil {
			w.check(w.model.compare(w.log))
		}
	}
	require.Greater(t, failed, 15)
}

func TestFailedSyncIsToldApart(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Datasync, faultfs.Sync, faultfs.SyncDir} {
		failed := false
		for seed := uint64(1); seed <= 50 && !failed; seed++ {
			w := newWorld(t, seed)
			w.limits.SegmentBytes = 300
			w.failOp = op
			for range 10 {
				out := w.someWrite()
				err := w.log.Write(out)
				if err != nil {
					require.ErrorIs(t, err, raftlog.ErrSyncFailed)
					require.ErrorIs(t, err, raftlog.ErrFailed)
					failed = true
					break
				}
				w.model.write(out)
			}
		}
		require.True(t, failed, op)
	}
}

func TestRefusedWritesChangeNothing(t *testing.T) {
	w := newWorld(t, 1)
	require.NoError(t, w.log.Write(inTerm(2, 2)))
	good := batch(t, 0, 2, nil, 1, 2, 3)
	require.NoError(t, w.log.Write(raftlog.Write{Entries: one(entryOf(3, 2, good)), Payloads: [][]byte{good}, Commit: 3}))
	stamped := func(base int64, epoch int32) []byte { return batch(t, base, epoch, nil, 1) }
	for name, out := range map[string]raftlog.Write{
		"a gap in the indexes":           {Entries: one(entryOf(5, 2, stamped(3, 2))), Payloads: [][]byte{stamped(3, 2)}},
		"a committed index":              {Entries: one(entryOf(3, 2, stamped(0, 2))), Payloads: [][]byte{stamped(0, 2)}},
		"a batch that begins a term":     {Entries: one(entryOf(4, 3, stamped(3, 3))), Payloads: [][]byte{stamped(3, 3)}},
		"another epoch":                  {Entries: one(entryOf(4, 2, stamped(3, 1))), Payloads: [][]byte{stamped(3, 1)}},
		"a gap in the offsets":           {Entries: one(entryOf(4, 2, stamped(4, 2))), Payloads: [][]byte{stamped(4, 2)}},
		"an offset twice":                {Entries: one(entryOf(4, 2, stamped(2, 2))), Payloads: [][]byte{stamped(2, 2)}},
		"no payload":                     {Entries: one(entryOf(4, 2, stamped(3, 2))), Payloads: [][]byte{nil}},
		"fewer payloads":                 {Entries: one(entryOf(4, 2, stamped(3, 2)))},
		"a cut payload":                  {Entries: one(entryOf(4, 2, stamped(3, 2))), Payloads: [][]byte{stamped(3, 2)[:65]}},
		"another payload's header":       {Entries: one(entryOf(4, 2, stamped(3, 2))), Payloads: [][]byte{batch(t, 3, 2, nil, 7)}},
		"a term that goes back":          {Entries: one(other(4, 1, 0, nil)), Payloads: [][]byte{nil}},
		"a term over Kafka's largest":    {Entries: one(other(4, 1<<31, 0, nil)), Payloads: [][]byte{nil}},
		"a payload for a non-batch":      {Entries: one(other(4, 2, 0, nil)), Payloads: [][]byte{stamped(3, 2)}},
		"a payload of another size, bad": {Entries: one(entryOf(4, 2, stamped(3, 2))), Payloads: [][]byte{append(stamped(3, 2), 0)}},
	} {
		err := w.log.Write(out)
		require.ErrorIs(t, err, raftlog.ErrInvalid, name)
		require.NotErrorIs(t, err, raftlog.ErrFailed, name)
	}
	require.ErrorIs(t, w.log.WritePoint(raftlog.Point{Applied: 9, ConfState: confState(1)}), raftlog.ErrInvalid)
	last, err := w.log.LastIndex()
	require.NoError(t, err)
	require.Equal(t, uint64(3), last)
	next := stamped(3, 2)
	require.NoError(t, w.log.Write(raftlog.Write{Entries: one(entryOf(4, 2, next)), Payloads: [][]byte{next}}))
	require.Equal(t, int64(4), w.log.NextOffset())
}
