package raftlog_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// Zeros are ahead of the batches after some appends, never over them, and gone
// after a clean stop; a log that was killed with them opens.
func TestZerosAhead(t *testing.T) {
	w := newWorld(t, 1)
	w.limits = raftlog.Limits{SegmentBytes: 1 << 30, SegmentMs: 1 << 40, IndexInterval: 4096}
	w.zeros = true
	w.log, _ = w.again()
	require.NoError(t, w.log.Write(inTerm(2, 2)))
	w.model.write(inTerm(2, 2))
	w.terms = 2
	name := "/data/p/" + w.filesOf(".log")[0]
	for i := range 40 {
		b := batch(t, w.model.next(), 2, make([]byte, 3000), int64(i))
		out := raftlog.Write{Entries: one(entryOf(w.model.last()+1, 2, b)), Payloads: [][]byte{b}}
		require.NoError(t, w.log.Write(out))
		w.model.write(out)
		if i%3 == 0 {
			for _, f := range w.zeroing {
				f()
			}
			w.zeroing = nil
		}
	}
	stats := w.log.Stats()
	require.Len(t, stats.Segments, 1)
	ahead := int64(len(w.read(name))) - stats.Bytes
	require.GreaterOrEqual(t, ahead, int64(32<<10))
	w.check(w.model.compare(w.log))

	log, err := w.again()
	require.NoError(t, err)
	require.Zero(t, log.Recovered().TornBytes, "zeros are no torn tail")
	w.check(w.model.compare(log))
	require.NoError(t, log.Close(&raftlog.Point{Applied: 1, ConfState: confState(1)}))
	require.Len(t, w.read(name), int(stats.Bytes))
}

// The background writes zeros while batches are appended, read, sealed and
// dropped: no byte of a batch is lost. Run it with -race.
func TestReadersBesideTheOwner(t *testing.T) {
	defer goleak.VerifyNone(t)
	var background sync.WaitGroup
	o := raftlog.Options{
		FS: vfs.OS, Dir: t.TempDir() + "/p", Files: raftlog.NewFileCache(3),
		Limits: func() raftlog.Limits {
			return raftlog.Limits{SegmentBytes: 40 << 10, SegmentMs: 1 << 40, IndexInterval: 4096}
		},
		Scheduler: func(f func()) { background.Go(f) },
	}
	log, err := raftlog.Create(o, raftlog.Bootstrap{ConfState: confState(1)})
	require.NoError(t, err)
	require.NoError(t, log.Write(inTerm(2, 2)))

	const batches = 400
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() {
			for at := int64(0); at < batches; {
				bound := log.NextOffset()
				c, err := log.Read(at, bound, 1000*(r+1))
				if start := log.StartOffset(); err != nil && at < start {
					at = start
					continue
				}
				if err != nil {
					t.Errorf("read at %d: %v", at, err)
					return
				}
				at = c.Next
				if bound > 0 && at%7 == 0 {
					log.EpochAt(at)
					log.Stats()
					if _, _, _, err := log.FindTimestamp(at, bound); err != nil {
						t.Errorf("find timestamp %d: %v", at, err)
						return
					}
				}
			}
		})
	}
	value := make([]byte, 900)
	for i := range batches {
		b := batch(t, int64(i), 2, value, int64(i))
		index := uint64(3 + i)
		require.NoError(t, log.Write(raftlog.Write{Entries: one(entryOf(index, 2, b)), Payloads: [][]byte{b}, Commit: index}))
		if i%100 == 99 {
			require.NoError(t, log.WritePoint(raftlog.Point{Applied: index, ConfState: confState(1)}))
			_, _, err := log.DropBefore(int64(i - 60))
			require.NoError(t, err)
		}
		if i%150 == 75 {
			require.NoError(t, log.Sleep(raftlog.Point{Applied: index, ConfState: confState(1)}))
		}
	}
	readers.Wait()
	require.NoError(t, log.Close(nil))
	background.Wait()
	require.Zero(t, o.Files.Len())
}
