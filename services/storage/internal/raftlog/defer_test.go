package raftlog_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// Batches whose sync may be deferred cost none, are lost by a power cut alone, and
// are durable with the next write that syncs, to the segment or to the journal.
func TestDeferredSync(t *testing.T) {
	disk := memfs.New()
	syncs := 0
	counting := faultfs.New(disk, func(op faultfs.Op, _ string) error {
		if op == faultfs.Datasync || op == faultfs.Sync {
			syncs++
		}
		return nil
	})
	options := func() raftlog.Options {
		return raftlog.Options{FS: counting, Dir: "p", Files: raftlog.NewFileCache(4)}
	}
	log, err := raftlog.Create(options(), raftlog.Bootstrap{ConfState: confState(1)})
	require.NoError(t, err)
	require.NoError(t, log.Write(raftlog.Write{Entries: one(other(2, 2, 0, nil)), Payloads: [][]byte{nil}}))
	write := func(offset int64, mayDefer bool) {
		t.Helper()
		b := batch(t, offset, 2, []byte("x"), 1)
		require.NoError(t, log.Write(raftlog.Write{
			Entries: one(entryOf(uint64(3+offset), 2, b)), Payloads: [][]byte{b}, MayDefer: mayDefer,
		}))
	}
	// next is where the log goes on after a crash now.
	next := func(fs *memfs.FS) int64 {
		t.Helper()
		o := options()
		o.FS = fs
		again, err := raftlog.Open(o)
		require.NoError(t, err)
		return again.NextOffset()
	}

	write(0, false)
	before := syncs
	write(1, true)
	write(2, true)
	require.Equal(t, before, syncs)
	require.Equal(t, int64(3), log.NextOffset())
	require.Equal(t, int64(1), next(disk.Crash(nil)))
	require.Equal(t, int64(3), next(disk.Kill()))

	write(3, false)
	require.Equal(t, int64(4), next(disk.Crash(nil)))

	write(4, true)
	require.NoError(t, log.Write(raftlog.Write{HardState: &raftpb.HardState{Term: new(uint64(3)), Vote: new(uint64(1)), Commit: new(uint64(5))}}))
	require.Equal(t, int64(5), next(disk.Crash(nil)))

	write(5, true)
	require.NoError(t, log.WritePoint(raftlog.Point{Applied: 8, ConfState: confState(1)}))
	require.Equal(t, int64(6), next(disk.Crash(nil)))

	write(6, true)
	require.NoError(t, log.Close(&raftlog.Point{Applied: 9, ConfState: confState(1)}))
	require.Equal(t, int64(7), next(disk.Crash(nil)))
}

// Syncing makes durable what was written before it, while the log is written on, and
// also when the segment has been sealed meanwhile.
func TestSyncingBesideWrites(t *testing.T) {
	disk := memfs.New()
	options := func(fs vfs.FS) raftlog.Options {
		return raftlog.Options{FS: fs, Dir: "p", Files: raftlog.NewFileCache(4), Limits: func() raftlog.Limits {
			return raftlog.Limits{SegmentBytes: 400, SegmentMs: 1 << 40, IndexInterval: 100}
		}}
	}
	log, err := raftlog.Create(options(disk), raftlog.Bootstrap{ConfState: confState(1)})
	require.NoError(t, err)
	require.NoError(t, log.Write(raftlog.Write{Entries: one(other(2, 2, 0, nil)), Payloads: [][]byte{nil}}))
	write := func(offset int64) {
		t.Helper()
		b := batch(t, offset, 2, []byte("x"), 1)
		require.NoError(t, log.Write(raftlog.Write{
			Entries: one(entryOf(uint64(3+offset), 2, b)), Payloads: [][]byte{b}, MayDefer: true,
		}))
	}
	next := func(fs *memfs.FS) int64 {
		t.Helper()
		again, err := raftlog.Open(options(fs))
		require.NoError(t, err)
		return again.NextOffset()
	}
	_, due := log.Syncing()
	require.False(t, due)

	write(0)
	first, due := log.Syncing()
	require.True(t, due)
	require.Equal(t, int64(0), next(disk.Crash(nil)))
	require.NoError(t, first.Run())
	write(1)
	require.Equal(t, int64(1), next(disk.Crash(nil)))
	require.NoError(t, log.Synced(nil))
	second, due := log.Syncing()
	require.True(t, due)
	require.NoError(t, first.Run(), "which is nothing any more")
	require.Equal(t, int64(1), next(disk.Crash(nil)))

	base := log.ActiveBase()
	for offset := int64(2); log.ActiveBase() == base; offset++ {
		write(offset)
	}
	ended, err := second.Ended()
	require.NoError(t, err)
	require.True(t, ended, "a segment is durable when it is sealed")
	require.NoError(t, log.Synced(nil))
	last, due := log.Syncing()
	require.True(t, due)
	require.Equal(t, log.NextOffset()-1, next(disk.Crash(nil)))
	require.NoError(t, last.Run())
	require.Equal(t, log.NextOffset(), next(disk.Crash(nil)))
}

// A log that fails at something else while a sync of it fails elsewhere says so when
// it is closed: who opens it anew must know.
func TestCloseTellsOfASyncThatFailed(t *testing.T) {
	broken, full := errors.New("broken"), errors.New("full")
	var failing bool
	fs := faultfs.New(memfs.New(), func(op faultfs.Op, _ string) error {
		switch {
		case failing && op == faultfs.Datasync:
			return broken
		case failing && op == faultfs.WritevAt:
			return full
		}
		return nil
	})
	log, err := raftlog.Create(raftlog.Options{FS: fs, Dir: "p", Files: raftlog.NewFileCache(4)}, raftlog.Bootstrap{ConfState: confState(1)})
	require.NoError(t, err)
	require.NoError(t, log.Write(raftlog.Write{Entries: one(other(2, 2, 0, nil)), Payloads: [][]byte{nil}}))
	write := func(offset int64) error {
		b := batch(t, offset, 2, []byte("x"), 1)
		return log.Write(raftlog.Write{Entries: one(entryOf(uint64(3+offset), 2, b)), Payloads: [][]byte{b}, MayDefer: true})
	}
	require.NoError(t, write(0))
	sync, due := log.Syncing()
	require.True(t, due)
	failing = true
	require.ErrorIs(t, sync.Run(), broken)
	err = write(1)
	require.ErrorIs(t, err, full)
	require.NotErrorIs(t, err, raftlog.ErrSyncFailed)
	require.ErrorIs(t, log.Close(nil), raftlog.ErrSyncFailed)
}
