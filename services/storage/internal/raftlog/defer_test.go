package raftlog_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

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
